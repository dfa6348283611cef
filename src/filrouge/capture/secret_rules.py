"""The rules for secrets that have a shape: a prefix, an alphabet, a length.

Each pattern belongs to the syntax that the standard library and RE2 share (no look-around, no back-
reference), so that the hook and the daemon run the same table. Every repetition is bounded or is the last
thing matched, which keeps the standard library's engine linear. `hint` is a text that must be there for
the rule to be worth compiling: compiling sixty patterns would cost the hook more than all its other work.
Where a pattern has a group, only the group is the secret. `checked` asks for a digit, which tells a token
from dashed words.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Rule(NamedTuple):
    """One kind of secret. `hint` is compared without regard to case where `folded` is true."""

    kind: str
    hint: str
    pattern: str
    checked: bool = False
    folded: bool = False


RULES: Final[tuple[Rule, ...]] = (
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
    Rule("cookie", "cookie:", r"(?i)\b(?:set-)?cookie:\s{0,4}([^\r\n\"'\\]{8,})", folded=True),
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
        r"\bcurl\b[^\n]{0,200}?\s(?:-u|--user)[ =]?[\"']?[^\s:\"']{1,100}:([^\s\"']{3,200})",
    ),
)
