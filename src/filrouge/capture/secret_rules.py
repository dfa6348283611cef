"""Rules for secrets with a recognisable shape: a prefix, an alphabet, a length.

Patterns use only the syntax that the standard library and RE2 share (no look-around, no back-reference), so the hook
and the daemon run the same table. Every repetition is bounded or is the last thing matched, which keeps the standard
library's engine linear.

`hint` is a text that must be present before the rule is compiled: compiling sixty patterns would cost the hook more
than all its other work. If a pattern has a group, only the group is the secret. `checked` requires a digit, which
distinguishes a token from dashed words.

Pure: no database, no file.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Rule(NamedTuple):
    """One kind of secret. `hint` is compared without regard to case if `folded` is true."""

    kind: str
    hint: str
    pattern: str
    checked: bool = False
    folded: bool = False


#: A value on a command line, and the text between a program and its flag.
_ARGUMENT: Final = r"[\"']?([^\s\"'|;]{3,200})"
_TO_FLAG: Final = r"\b[^\n|;]{0,120}?\s"

_PROVIDER_RULES: Final[tuple[Rule, ...]] = (
    Rule("aws-key", "AKIA|ASIA|ABIA|ACCA|AROA|AIDA", r"\b(?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA)[A-Z0-9]{16}\b"),
    Rule("anthropic", "sk-ant-", r"\bsk-ant-[A-Za-z0-9_-]{16,}"),
    Rule("openai", "sk-", r"\bsk-[A-Za-z0-9_-]{20,}", checked=True),
    Rule("github", "ghp_|gho_|ghu_|ghs_|ghr_", r"\bgh[pousr]_[A-Za-z0-9]{20,}"),
    Rule("github", "github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{22,}"),
    Rule(
        "gitlab",
        "glpat-|gldt-|glrt-|glcbt-|glptt-|glft-|glimt-|glagent-|glsoat-|gloas-",
        r"\bgl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|soat|oas)-[A-Za-z0-9_.-]{16,}",
        checked=True,
    ),
    Rule("slack", "xox", r"\bxox[abceoprs]-[A-Za-z0-9-]{10,}"),
    Rule("slack", "xapp-", r"\bxapp-[0-9]-[A-Za-z0-9-]{10,}"),
    Rule("slack", "hooks.slack.com", r"hooks\.slack\.com/(?:services|workflows)/([A-Za-z0-9/_-]{20,})"),
    Rule("discord", "/webhooks/", r"discord(?:app)?\.com/api/webhooks/([0-9]{10,}/[A-Za-z0-9_-]{20,})"),
    Rule("google", "AIza", r"\bAIza[A-Za-z0-9_-]{30,}"),
    Rule("google", "ya29.", r"\bya29\.[A-Za-z0-9_-]{20,}"),
    Rule("google", "GOCSPX-", r"\bGOCSPX-[A-Za-z0-9_-]{20,}"),
    Rule("google", "1//0", r"\b1//0[A-Za-z0-9_-]{30,}"),
    Rule("stripe", "k_live_|k_test_", r"\b(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}"),
    Rule("stripe", "whsec_", r"\bwhsec_[A-Za-z0-9+/=]{20,}"),
    Rule("npm", "npm_", r"\bnpm_[A-Za-z0-9]{30,}"),
    Rule("pypi", "pypi-", r"\bpypi-[A-Za-z0-9_-]{40,}"),
    Rule("huggingface", "hf_", r"\bhf_[A-Za-z0-9]{30,}"),
    Rule("huggingface", "api_org_", r"\bapi_org_[A-Za-z0-9]{30,}"),
    Rule("jwt", "eyJ", r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){1,3}"),
    Rule("sendgrid", "SG.", r"\bSG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,}"),
    Rule("twilio", "SK", r"\bSK[0-9a-f]{32}\b"),
    Rule("mailgun", "key-", r"\bkey-[0-9a-f]{32}\b"),
    Rule("mailchimp", "-us", r"\b[0-9a-f]{32}-us[0-9]{1,2}\b"),
    Rule("digitalocean", "_v1_", r"\bdo[opr]_v1_[0-9a-f]{40,}"),
    Rule("databricks", "dapi", r"\bdapi[0-9a-f]{32}\b"),
    Rule("shopify", "shpat_|shpca_|shppa_|shpss_", r"\bshp(?:at|ca|pa|ss)_[0-9A-Fa-f]{32}\b"),
    Rule("square", "sq0", r"\bsq0[a-z]{3}-[A-Za-z0-9_-]{22,}"),
    Rule("linear", "lin_api_", r"\blin_api_[A-Za-z0-9]{30,}"),
    Rule("notion", "ntn_", r"\bntn_[A-Za-z0-9]{40,}"),
    Rule("docker", "dckr_", r"\bdckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}"),
    Rule("vault", "hvs.|hvb.|hvr.", r"\bhv[bsr]\.[A-Za-z0-9_-]{20,}"),
    Rule("filrouge", "frg_", r"\bfrg_[A-Za-z0-9_-]{40,}"),
    Rule("age", "AGE-SECRET-KEY-1", r"\bAGE-SECRET-KEY-1[0-9A-Z]{50,}"),
    Rule("telegram", ":AA", r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{32,}"),
    Rule("grafana", "glsa_|glc_", r"\bgl(?:sa|c)_[A-Za-z0-9+/=_]{32,}"),
    Rule("doppler", "dp.", r"\bdp\.(?:pt|st|sa|ct|scim|audit)\.[A-Za-z0-9_.-]{40,}"),
    Rule("newrelic", "NRAK-", r"\bNRAK-[A-Z0-9]{27}\b"),
    Rule("planetscale", "pscale_", r"\bpscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.-]{32,}"),
    Rule(
        "supabase",
        "sbp_|sb_secret_|sb_publishable_",
        r"\bsb(?:p|_secret|_publishable)_[A-Za-z0-9_]{20,}",
        checked=True,
    ),
    Rule("replicate", "r8_", r"\br8_[A-Za-z0-9]{30,}"),
    Rule("groq", "gsk_", r"\bgsk_[A-Za-z0-9]{40,}"),
    Rule("xai", "xai-", r"\bxai-[A-Za-z0-9]{60,}"),
    Rule("perplexity", "pplx-", r"\bpplx-[A-Za-z0-9]{40,}"),
    Rule("postman", "PMAK-", r"\bPMAK-[0-9a-f]{24}-[0-9a-f]{34}\b"),
    Rule("rubygems", "rubygems_", r"\brubygems_[0-9a-f]{48}\b"),
    Rule("crates", "cio", r"\bcio[A-Za-z0-9]{32}\b", checked=True),
    Rule("atlassian", "ATATT3", r"\bATATT3[A-Za-z0-9_=-]{60,}"),
    Rule("heroku", "HRKU-", r"\bHRKU-[A-Za-z0-9_-]{30,}"),
    Rule("fly", "fo1_", r"\bfo1_[A-Za-z0-9_-]{40,}"),
    Rule("fly", "fm2_", r"\bfm2_[A-Za-z0-9+/=_-]{40,}"),
    Rule("cloudflare", "v1.0-", r"\bv1\.0-[0-9a-f]{24}-[0-9a-f]{100,}"),
    Rule("figma", "figd_", r"\bfigd_[A-Za-z0-9_-]{30,}"),
    Rule("airtable", "pat", r"\bpat[A-Za-z0-9]{14}\.[0-9a-f]{64}\b"),
    Rule("pulumi", "pul-", r"\bpul-[0-9a-f]{40}\b"),
    Rule("terraform", ".atlasv1.", r"\b[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}"),
    Rule("sentry", "sntrys_", r"\bsntrys_[A-Za-z0-9+/=_-]{40,}"),
    Rule("dynatrace", "dt0", r"\bdt0[a-z][0-9]{2}\.[A-Z0-9]{24}\.[A-Z0-9]{64}\b"),
    Rule("openai", "sess-", r"\bsess-[A-Za-z0-9]{40}\b"),
    Rule("brevo", "xkeysib-|xsmtpsib-", r"\bx(?:key|smtp)sib-[0-9a-f]{64}-[A-Za-z0-9]{16}\b"),
    Rule("netlify", "nfp_|nfc_|nfo_|nfu_", r"\bnf[pcou]_[A-Za-z0-9]{36,}"),
    Rule("posthog", "phx_|phc_", r"\bph[xc]_[A-Za-z0-9]{32,}"),
    Rule("langsmith", "lsv2_", r"\blsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}"),
    Rule("circleci", "CCIPAT_|CCIPRJ_", r"\bCCI(?:PAT|PRJ)_[A-Za-z0-9]{16,}_[0-9a-f]{32,}"),
    Rule("bitbucket", "ATBB", r"\bATBB[A-Za-z0-9_=]{24,}", checked=True),
    Rule("atlassian", "ATCTT3", r"\bATCTT3[A-Za-z0-9_=-]{60,}"),
    Rule("nvidia", "nvapi-", r"\bnvapi-[A-Za-z0-9_-]{40,}"),
    Rule("artifactory", "AKCp", r"\bAKCp[A-Za-z0-9]{50,}"),
    Rule("artifactory", "cmVmdGtuOj", r"\bcmVmdGtuOj[A-Za-z0-9]{40,}"),
    Rule("tavily", "tvly-", r"\btvly-[A-Za-z0-9_-]{20,}"),
    Rule("pinecone", "pcsk_", r"\bpcsk_[A-Za-z0-9_]{40,}"),
    Rule("resend", "re_", r"\bre_[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}"),
    Rule("mapbox", "sk.eyJ", r"\bsk\.eyJ[A-Za-z0-9_-]{40,}\.[A-Za-z0-9_-]{16,}"),
    Rule("buildkite", "bkua_", r"\bbkua_[0-9a-f]{40}\b"),
    Rule("dropbox", "sl.", r"\bsl\.(?:u\.)?[A-Za-z0-9_-]{100,}"),
    Rule("facebook", "EAA", r"\bEAA[A-Za-z0-9]{80,}"),
    Rule("alibaba", "LTAI", r"\bLTAI[A-Za-z0-9]{12,24}\b", checked=True),
    Rule("tencent", "AKID", r"\bAKID[A-Za-z0-9]{32}\b"),
    Rule("razorpay", "rzp_", r"\brzp_(?:live|test)_[A-Za-z0-9]{14,}"),
    Rule("flutterwave", "FLWSECK", r"\bFLWSECK(?:_TEST)?-[0-9A-Za-z]{12,}(?:-X)?"),
    Rule("braintree", "access_token$", r"\baccess_token\$(?:production|sandbox)\$[0-9a-z]{16}\$[0-9a-f]{32}"),
    Rule("sentry", "sntryu_", r"\bsntryu_[0-9a-f]{64}\b"),
    Rule("contentful", "CFPAT-", r"\bCFPAT-[A-Za-z0-9_-]{40,}"),
    Rule("typeform", "tfp_", r"\btfp_[A-Za-z0-9_.=-]{40,}"),
    Rule("readme", "rdme_", r"\brdme_[a-z0-9]{60,}"),
    Rule("wakatime", "waka_", r"\bwaka_[0-9a-f-]{36}\b"),
    Rule("neon", "napi_|npg_", r"\b(?:napi_[a-z0-9]{40,}|npg_[A-Za-z0-9]{10,})", checked=True),
    Rule("notion", "secret_", r"\bsecret_[A-Za-z0-9]{40,}", checked=True),
    Rule("nuget", "oy2", r"\boy2[a-z0-9]{43}\b"),
    Rule("render", "rnd_", r"\brnd_[A-Za-z0-9]{28,}"),
    Rule("cerebras", "csk-", r"\bcsk-[a-z0-9]{40,}"),
    Rule("fireworks", "fw_", r"\bfw_[A-Za-z0-9]{20,}", checked=True),
    Rule("firecrawl", "fc-", r"\bfc-[0-9a-f]{32}\b"),
    Rule("onepassword", "ops_eyJ", r"\bops_eyJ[A-Za-z0-9+/=_-]{60,}"),
    Rule("amazon", "amzn.mws.", r"\bamzn\.mws\.[0-9a-f-]{36}\b"),
    Rule("easypost", "EZAK|EZTK", r"\bEZ[AT]K[A-Za-z0-9]{54}\b"),
    Rule("discord", ".", r"\b[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}"),
    Rule("azure", "Q~", r"\b[A-Za-z0-9_-]{3}[0-9]Q~[A-Za-z0-9_.~-]{31,34}"),
    Rule("okta", "SSWS", r"\bSSWS\s+(00[A-Za-z0-9_-]{40})\b"),
    Rule("putty", "Private-Lines:", r"\bPrivate-Lines: [0-9]{1,3}\r?\n([A-Za-z0-9+/=\r\n]{20,})"),
)

_FORM_RULES: Final[tuple[Rule, ...]] = (
    Rule("signature", "sig", r"(?i)[?&](?:sig|signature|x-amz-signature)=([A-Za-z0-9%+/=_-]{20,})", folded=True),
    Rule(
        "url-credentials",
        "://",
        r"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/@:\"'<>]{0,100}:([^\s/\"'<>]{1,200})@",
    ),
    Rule("url-credentials", "://", r"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://([A-Za-z0-9_-]{20,100})@", checked=True),
    Rule(
        "authorization",
        "authorization",
        r"(?i)\bauthorization[\"'\\]{0,4}\s{0,4}[:=,]\s{0,4}[\"'\\]{0,4}"
        r"(?:bearer|basic|token|digest|apikey|key|negotiate)\s{1,4}([A-Za-z0-9._~+/=:-]{6,})",
        folded=True,
    ),
    Rule(
        "authorization",
        "bearer ",
        r"(?i)\bbearer\s{1,4}([A-Za-z0-9._~+/=-]{16,})",
        checked=True,
        folded=True,
    ),
    Rule(
        "authorization",
        "authorization",
        r"(?i)\bauthorization[\"'\\]{0,4}\s{0,4}[:=]\s{0,4}[\"'\\]{0,4}([A-Za-z0-9._~+/=-]{20,})",
        checked=True,
        folded=True,
    ),
    Rule(
        "cookie",
        "cookie",
        r"(?i)\bcookies?[\"'\\]{0,4}\s{0,4}[:=]\s{0,4}[\"'\\]{0,4}((?:[\w.%-]{1,60}=[^;\s\"'\\]{0,5};\s{0,2}){0,8}"
        r"[\w.%-]{1,60}=[^\s;\"'\\<>$({]{6,}[^\r\n\"'\\]*)",
        checked=True,
        folded=True,
    ),
    Rule(
        "cookie",
        "curl",
        r"\bcurl" + _TO_FLAG + r"(?:-b|--cookie)[ =]{0,2}[\"']?([\w.-]{1,60}=[^\s\"'<>$]{6,}[^\r\n\"']*)",
    ),
    Rule(
        "session",
        "sess|sid=",
        r"(?i)\b(?:[a-z][a-z0-9_.-]{0,24})?(?:sess(?:ion)?(?:_?id|_?token|_?key)?|sid)=([A-Za-z0-9%._~+/=-]{16,})",
        checked=True,
        folded=True,
    ),
    Rule(
        "password",
        "password",
        r"(?i)\blogin\s{1,4}[^\s]{1,100}\s{1,4}password\s{1,4}([^\s]{3,200})",
        folded=True,
    ),
    Rule(
        "password",
        "<pass",
        r"(?i)<pass(?:word|wd|phrase)?>\s{0,4}([^<\s]{3,200})\s{0,4}</pass",
        folded=True,
    ),
    Rule(
        "password",
        "curl",
        r"\bcurl" + _TO_FLAG + r"(?:-u|--user|-U|--proxy-user)[ =]?[\"']?[^\s:\"']{1,100}:([^\s\"']{3,200})",
    ),
    Rule("password", "http", r"\bhttps?" + _TO_FLAG + r"(?:-a|--auth)[ =][\"']?[^\s:\"']{1,100}:([^\s\"']{3,200})"),
    Rule("password", "mysql|mariadb", r"\b(?:mysql|mariadb)[a-z-]{0,12}" + _TO_FLAG + r"-p" + _ARGUMENT),
    Rule("password", "sshpass", r"\bsshpass(?:\s{1,4}-[^p\s]\S{0,60}){0,3}\s{1,4}-p\s{0,3}" + _ARGUMENT),
    Rule(
        "password",
        "login",
        r"\b(?:docker|podman|nerdctl|buildah|skopeo|helm|oras|crane|regctl|az|oc)\b[^\n|;]{0,60}?\blogin"
        + _TO_FLAG
        + r"-p[ =]{0,3}"
        + _ARGUMENT,
    ),
    Rule("password", "redis-cli", r"\bredis-cli" + _TO_FLAG + r"(?:-a|--pass)[ =]{1,3}" + _ARGUMENT),
    Rule(
        "password",
        "mongo|twine|influx|clickhouse|cqlsh",
        r"\b(?:mongo(?:sh|dump|restore|export|import|stat)?|twine|influx|clickhouse-client|cqlsh)"
        + _TO_FLAG
        + r"-p[ =]{0,3}"
        + _ARGUMENT,
    ),
    Rule(
        "password",
        "sqlcmd|bcp|isql|zip|mosquitto|ipmitool|ncftp",
        r"\b(?:sqlcmd|bcp|isql|f?zip|unzip|mosquitto_(?:pub|sub)|ipmitool)" + _TO_FLAG + r"-P[ =]{0,3}" + _ARGUMENT,
    ),
    Rule(
        "password",
        "ldap",
        r"\bldap(?:search|modify|add|delete|passwd|whoami|compare)" + _TO_FLAG + r"-w[ =]{0,3}" + _ARGUMENT,
    ),
    Rule("password", "7z|rar ", r"\b(?:7z[ar]?|(?:un)?rar)" + _TO_FLAG + r"-p" + _ARGUMENT),
    Rule(
        "password",
        "smbclient|rpcclient",
        r"\b(?:smbclient|rpcclient)" + _TO_FLAG + r"-U[ =]{0,3}[\"']?[^\s%\"']{1,64}%([^\s\"']{3,200})",
    ),
    Rule("password", "lftp", r"\blftp" + _TO_FLAG + r"-u[ =]{0,3}[\"']?[^\s,\"']{1,64},([^\s\"']{3,200})"),
    Rule("password", "/p:", r"\s/p:" + _ARGUMENT, checked=True),
    Rule(
        "password",
        "htpasswd",
        r"\bhtpasswd\s{1,4}-[A-Za-z]{0,6}b[A-Za-z]{0,6}\s{1,4}\S{1,200}\s{1,4}\S{1,64}\s{1,4}" + _ARGUMENT,
    ),
    Rule(
        "password",
        "rabbitmqctl",
        r"\brabbitmqctl"
        + _TO_FLAG
        + r"(?:add_user|change_password|authenticate_user)\s{1,4}\S{1,64}\s{1,4}"
        + _ARGUMENT,
    ),
    Rule(
        "password",
        "wpa_passphrase",
        r"\bwpa_passphrase\s{1,4}(?:\"[^\"\n]{1,64}\"|'[^'\n]{1,64}'|[^\s\"'=]{1,64})\s{1,4}" + _ARGUMENT,
    ),
    Rule("password", "net user", r"(?i)\bnet1?\s{1,4}user\s{1,4}[^\s/]{1,64}\s{1,4}([^\s/*][^\s]{2,100})", folded=True),
    Rule(
        "password",
        "net use ",
        r"(?i)\bnet\s{1,4}use\s[^\n|;]{0,100}?\\\\\S{1,100}\s{1,4}([^\s/*][^\s]{2,100})",
        folded=True,
    ),
    Rule(
        "password",
        "mysqladmin|mariadb-admin",
        r"\b(?:mysqladmin|mariadb-admin)\b[^\n|;]{0,120}?\spassword\s{1,4}" + _ARGUMENT,
    ),
    Rule("password", " -pw ", r"\b(?:plink|pscp|psftp|putty|kitty)(?:\.exe)?\b[^\n|;]{0,120}?\s-pw\s{1,4}" + _ARGUMENT),
    Rule(
        "password",
        "AUTH",
        r"(?:\bredis-cli\b[^\n|;]{0,100}?\s|(?m:^)\s{0,8}|> )AUTH\s{1,4}(?:[A-Za-z]\w{0,40}\s{1,4})?" + _ARGUMENT,
        checked=True,
    ),
    Rule("password", "useradd|usermod", r"\buser(?:add|mod)" + _TO_FLAG + r"(?:-p|--password)[ =]{1,3}" + _ARGUMENT),
    Rule(
        "secret",
        "alias set|config host add",
        r"\bmc\s{1,4}(?:alias\s{1,4}set|config\s{1,4}host\s{1,4}add)\s{1,4}\S{1,64}\s{1,4}\S{1,200}\s{1,4}\S{1,100}\s{1,4}"
        + _ARGUMENT,
    ),
    Rule(
        "secret",
        "configure set",
        r"\bconfigure\s{1,4}set\s{1,4}[\w.-]{0,60}(?:secret|token|password|key)[\w]{0,20}\s{1,4}" + _ARGUMENT,
        checked=False,
    ),
    Rule(
        "password", "http-basic", r"\bconfig\b[^\n|;]{0,60}?\shttp-basic\.\S{1,100}\s{1,4}\S{1,64}\s{1,4}" + _ARGUMENT
    ),
    Rule(
        "token",
        "-token.|-oauth.|authToken|_password",
        r"\bconfig\b[^\n|;]{0,60}?\s\S{0,100}(?:-token\.|-oauth\.|:_authToken|:_password)\S{0,60}\s{1,4}" + _ARGUMENT,
    ),
    Rule(
        "password",
        "ctl register",
        r"\b(?:prosody|ejabberd)ctl\s{1,4}register\s{1,4}\S{1,64}\s{1,4}\S{1,100}\s{1,4}" + _ARGUMENT,
    ),
    Rule(
        "password",
        "openssl passwd",
        r"\bopenssl\s{1,4}passwd(?:\s{1,4}-[a-z0-9]{1,12}(?:\s{1,4}[^\s-]\S{0,15})??){0,3}\s{1,4}([^\s\"'|;-][^\s\"'|;]{2,200})",
    ),
    Rule(
        "password",
        "-password",
        r"\bsecurity\s{1,4}add-(?:generic|internet)-password" + _TO_FLAG + r"-w\s{1,4}" + _ARGUMENT,
    ),
    Rule(
        "password",
        "-storepass |-keypass |-srcstorepass |-deststorepass ",
        r"\s-(?:(?:src|dest)?storepass|(?:src|dest)?keypass)\s{1,4}" + _ARGUMENT,
    ),
    Rule("password", "SecureString", r"\bConvertTo-SecureString\s{1,4}(?:-String\s{1,4})?" + _ARGUMENT, checked=True),
    Rule("password", " pass:", r"\s-pass(?:in|out)?\s{1,4}[\"']?pass:([^\s\"']{3,200})"),
    Rule("token", " login ", r"\b(?:vault|cargo|flyctl|huggingface-cli)\s{1,4}login\s{1,4}" + _ARGUMENT, checked=True),
    Rule(
        "password",
        "|",
        r"\b(?:echo|printf)\s{1,4}(?:-[neE]{1,3}\s{1,4})?(?:[\"']?%s(?:\\{1,2}n)?[\"']?\s{1,4})?"
        r"(\"[^\"\n]{3,200}\"|'[^'\n]{3,200}'|[^\s\"'|]{3,200})"
        r"\s{0,4}\|\s{0,4}(?:sudo\s{1,4}(?:-[A-RT-Za-z]\s{1,4})?-S|[^\n|]{0,120}?(?:password-stdin|passwd"
        r"|passphrase-fd|with-token|sshpass))\b",
    ),
    Rule("password", "<<<", r"(?:password-stdin|passwd|with-token|sudo -S)\b[^\n]{0,80}?<<<\s{0,4}" + _ARGUMENT),
    Rule("password", "<<", r"(?:password-stdin|chpasswd)\b[^\n]{0,80}?<<-?\s?[\"']?\w{1,20}[\"']?\n([^\n]{3,400})"),
    Rule("password", "jdbc:oracle", r"\bjdbc:oracle:[a-z]{2,6}:[^\s/:\"']{1,64}/([^\s@\"']{3,100})@"),
    Rule(
        "password",
        ":5|:6|:*:",
        r"(?m)^[ \t]{0,8}[A-Za-z0-9*][^\s:/]{0,100}:(?:[56][0-9]{3}|\*):[^\s:/]{1,64}:[^\s:/]{1,64}:"
        r"([^\s]{3,200})[ \t]{0,8}$",
    ),
    Rule("token", '"auth"', r"\"auth\"\s{0,4}:\s{0,4}\"([A-Za-z0-9+/=]{12,})\""),
)

RULES: Final[tuple[Rule, ...]] = (*_PROVIDER_RULES, *_FORM_RULES)
