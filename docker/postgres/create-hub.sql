-- Run once by PostgreSQL's image, as superuser: the database of a hub with its two roles.
-- The owner runs migrations. The other role serves, owns nothing, and row security binds it.
\getenv owner HUB_OWNER_PASSWORD
\getenv serving HUB_SERVING_PASSWORD
CREATE ROLE hub_owner LOGIN PASSWORD :'owner';
CREATE ROLE filrouge_hub LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE PASSWORD :'serving';
CREATE DATABASE hub OWNER hub_owner;
\connect hub
CREATE EXTENSION vector;
