"""What keys, tokens and passwords look like, as data.

A shape is the fixed beginning a service gives its keys and the alphabet of what follows. The least length is well below
that of a whole key, because a key that was cut (in a title, in a log) still gives away what it keeps. Shapes without a
fixed beginning are known by what stands before them: `Bearer`, `PASSWORD=`, `://user:`.

Source: the key formats that the services publish for secret scanning, November 2026.
"""

from __future__ import annotations

from pi_sessions.records import Record

SHORTEST_KEY = 12
WORD = "A-Za-z0-9"
DASHED = r"A-Za-z0-9_\-"


class Rule(Record):
    """One kind of secret.

    Looking for it takes time in proportion to the text, whatever the text: a pattern is tried only where a hint stands,
    and every repetition that another part must follow is bounded or gives nothing back.

    Attributes:
        kind: Name of the kind, as placeholders and reports say it.
        pattern: Regular expression; the secret is the group `secret`, or the whole match when there is none.
        hints: The pattern matches only where one of these stands (in small letters when `folded`); none: anywhere.
        folded: The hints are looked for in the text in small letters.
        in_word: All of it, hint included, has at least `SHORTEST_KEY` characters and no blank among them.
        guarded: The value found must look like a secret and not like a reference to one (`secrets.is_plausible`).
        back: How many characters before a hint a match begins.
    """

    kind: str
    pattern: str
    hints: tuple[str, ...]
    folded: bool = False
    in_word: bool = False
    guarded: bool = False
    back: tuple[int, ...] = (0,)


def prefixed(kind: str, *beginnings: str, alphabet: str = DASHED, least: int = 8) -> Rule:
    """Return the rule for keys with a fixed beginning.

    Args:
        beginnings: What a key begins with, as it is written.
        alphabet: Characters of the rest, as inside `[...]`.
        least: How many of them make a key.
    """
    begins = "|".join(each.replace(".", r"\.") for each in beginnings)
    return Rule(kind, rf"(?<![A-Za-z0-9])(?:{begins})[{alphabet}]{{{least},}}", beginnings, in_word=True)


BLOCKS = (
    # A block that was cut has no end: then all that can belong to it goes. No block holds five dashes in a row.
    Rule(
        "private-key",
        r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}?PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?:[^\-]{1,1000}+|-{1,4}+(?!-)){0,60}+-----END (?:[A-Z0-9]{1,20} ){0,4}?PRIVATE KEY(?: BLOCK)?-----"
        r"|(?:[A-Za-z0-9+/=\s:,\-]|\\+[nr])*+)",
        ("-----BEGIN ",),
    ),
    prefixed("age-key", "AGE-SECRET-KEY-1", alphabet="A-Z0-9"),
    Rule(
        "jwt",
        r"(?<![A-Za-z0-9])eyJ[A-Za-z0-9_\-]{8,1000}+\.[A-Za-z0-9_\-]{4,}(?:\.[A-Za-z0-9_\-]*)*",
        ("eyJ",),
        in_word=True,
    ),
    Rule(
        "jwt", r"(?<![A-Za-z0-9])eyJ(?:hbGciOi|0eXAiOi)[A-Za-z0-9_\-]{4,}", ("eyJhbGciOi", "eyJ0eXAiOi"), in_word=True
    ),
)

MODEL_PROVIDERS = (
    prefixed("anthropic-key", "sk-ant-"),
    prefixed("openai-key", "sk-proj-", "sk-svcacct-", "sk-admin-", "sk-None-"),
    prefixed("openrouter-key", "sk-or-"),
    Rule("api-key", r"(?<![A-Za-z0-9])sk-(?=[a-z_\-]{0,100}+[A-Z0-9])[A-Za-z0-9_\-]{16,}", ("sk-",), in_word=True),
    prefixed("google-key", "AIza", least=16),
    prefixed("huggingface-token", "hf_", "api_org_", alphabet=WORD, least=16),
    prefixed("groq-key", "gsk_", alphabet=WORD, least=16),
    prefixed("xai-key", "xai-", alphabet=WORD, least=16),
    prefixed("perplexity-key", "pplx-", alphabet=WORD, least=16),
    prefixed("replicate-token", "r8_", alphabet=WORD, least=20),
    prefixed("nvidia-key", "nvapi-", least=16),
    prefixed("cerebras-key", "csk-", alphabet=WORD, least=20),
    prefixed("fireworks-key", "fw_", alphabet=WORD, least=20),
    prefixed("langsmith-key", "lsv2_pt_", "lsv2_sk_"),
    prefixed("tavily-key", "tvly-", least=16),
    prefixed("pinecone-key", "pcsk_"),
    prefixed("e2b-key", "e2b_", alphabet="0-9a-f", least=16),
    prefixed("firecrawl-key", "fc-", alphabet="0-9a-f", least=16),
)

CODE_HOSTS = (
    prefixed("github-token", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", alphabet=WORD),
    prefixed("github-token", "github_pat_", alphabet=r"A-Za-z0-9_"),
    prefixed(
        "gitlab-token",
        "glpat-",
        "gldt-",
        "glrt-",
        "glcbt-",
        "glptt-",
        "glft-",
        "glimt-",
        "glagent-",
        "gloas-",
        "glsoat-",
    ),
    prefixed("npm-token", "npm_", alphabet=WORD, least=16),
    prefixed("pypi-token", "pypi-"),
    prefixed("rubygems-key", "rubygems_", alphabet="0-9a-f", least=16),
    prefixed("docker-token", "dckr_pat_", "dckr_oat_"),
    prefixed("artifactory-token", "AKCp", alphabet=WORD, least=20),
    prefixed("atlassian-token", "ATATT3", "ATCTT3", "ATBB", alphabet=r"A-Za-z0-9_=\-", least=16),
    prefixed("linear-key", "lin_api_", "lin_oauth_", alphabet=WORD),
    prefixed("notion-token", "ntn_", alphabet=WORD, least=16),
    prefixed("figma-token", "figd_", "figu_", "figo_", least=16),
    prefixed("circleci-token", "CCIPAT_", "CCIPRJ_"),
    prefixed("buildkite-token", "bkua_", alphabet="0-9a-f", least=16),
    prefixed("postman-key", "PMAK-", alphabet=r"0-9a-f\-", least=16),
)

CLOUDS = (
    prefixed("aws-access-key", "AKIA", alphabet="A-Z0-9"),
    Rule(
        "aws-access-key",
        r"(?<![A-Za-z0-9])(?:ASIA|ABIA|ACCA)(?=[A-Z]*[0-9])[A-Z0-9]{16}(?![A-Za-z0-9])",
        ("ASIA", "ABIA", "ACCA"),
        in_word=True,
    ),
    prefixed("google-oauth-secret", "GOCSPX-"),
    prefixed("google-token", "ya29.", "1//0", alphabet=r"A-Za-z0-9_.\-", least=12),
    Rule("azure-key", r"AccountKey=(?P<secret>[A-Za-z0-9+/=]{16,})", ("AccountKey=",), in_word=True),
    Rule(
        "azure-secret",
        r"(?<![A-Za-z0-9])[A-Za-z0-9_~.]{3}[78]Q~[A-Za-z0-9_~.\-]{16,}",
        ("7Q~", "8Q~"),
        in_word=True,
        back=(3,),
    ),
    prefixed("digitalocean-token", "dop_v1_", "doo_v1_", "dor_v1_", alphabet="0-9a-f"),
    prefixed("databricks-token", "dapi", alphabet="0-9a-f", least=16),
    prefixed("heroku-key", "HRKU-", least=16),
    prefixed("cloudflare-key", "v1.0-", alphabet=r"0-9a-f\-", least=32),
    prefixed("vercel-token", "vcp_", "vci_", "vca_", "vcr_", "vck_", "vercel_blob_rw_", least=16),
    prefixed("netlify-token", "nfp_", alphabet=WORD, least=16),
    prefixed("fly-token", "fo1_", "fm1r_", "fm1a_", "fm2_", alphabet=r"A-Za-z0-9+/=_\-", least=16),
    prefixed("supabase-key", "sbp_", "sb_secret_", "sbp_oauth_", least=16),
    prefixed("planetscale-token", "pscale_tkn_", "pscale_pw_", "pscale_oauth_", alphabet=r"A-Za-z0-9_.=\-"),
    prefixed("vault-token", "hvs.", "hvb.", "hvr.", least=16),
    Rule(
        "terraform-token",
        r"(?<![A-Za-z0-9])[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=\-]{16,}",
        (".atlasv1.",),
        in_word=True,
        back=(14,),
    ),
    prefixed("pulumi-token", "pul-", alphabet="0-9a-f", least=16),
    prefixed("doppler-token", "dp.pt.", "dp.st.", "dp.ct.", "dp.sa.", "dp.scim.", alphabet=r"A-Za-z0-9_.\-"),
    prefixed("tailscale-key", "tskey-"),
    prefixed("1password-token", "ops_eyJ", alphabet=r"A-Za-z0-9_=\-"),
    prefixed("grafana-token", "glc_", "glsa_", alphabet=r"A-Za-z0-9_+/=", least=16),
    prefixed("new-relic-key", "NRAK-", "NRJS-", "NRII-", alphabet="A-Za-z0-9", least=16),
    prefixed("sentry-token", "sntrys_", "sntryu_", alphabet=r"A-Za-z0-9_+/=\-", least=16),
    prefixed("dynatrace-token", "dt0c01.", "dt0s16.", alphabet=r"A-Za-z0-9.", least=16),
    prefixed("posthog-key", "phx_", alphabet=WORD, least=16),
)

SERVICES = (
    prefixed("slack-token", "xoxb-", "xoxp-", "xoxa-", "xoxo-", "xoxr-", "xoxs-", "xoxe-", "xoxc-", "xoxd-", "xapp-"),
    prefixed("slack-token", "xoxe.xoxb-", "xoxe.xoxp-"),
    Rule(
        "slack-webhook",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9/_\-]{16,})",
        ("hooks.slack.com/",),
        in_word=True,
    ),
    Rule(
        "discord-webhook",
        r"discord(?:app)?\.com/api/webhooks/[0-9]{1,30}+/(?P<secret>[A-Za-z0-9_\-]{16,})",
        ("discord.com/api/webhooks/", "discordapp.com/api/webhooks/"),
        in_word=True,
    ),
    Rule("discord-token", r"[MNO](?<![A-Za-z0-9].)[A-Za-z0-9_\-]{23,27}+\.[A-Za-z0-9_\-]{6}\.[A-Za-z0-9_\-]{27,}", ()),
    Rule("telegram-token", r"(?<![0-9])[0-9]{8,10}:AA[A-Za-z0-9_\-]{30,}", (":AA",), in_word=True, back=(10, 9, 8)),
    prefixed("stripe-key", "sk_live_", "sk_test_", "rk_live_", "rk_test_", "sk_prod_", alphabet=WORD),
    prefixed("webhook-secret", "whsec_", alphabet=r"A-Za-z0-9+/=", least=16),
    prefixed("square-token", "sq0atp-", "sq0csp-", "sq0idp-", "EAAAE"),
    prefixed("paystack-key", "FLWSECK-", "FLWSECK_TEST-"),
    prefixed("shopify-token", "shpat_", "shpca_", "shppa_", "shpss_", alphabet="0-9A-Fa-f"),
    prefixed("sendgrid-key", "SG.", alphabet=r"A-Za-z0-9_.\-", least=20),
    Rule("twilio-key", r"(?<![A-Za-z0-9])SK[0-9a-f]{32}(?![A-Za-z0-9])", ("SK",), in_word=True),
    Rule("mailgun-key", r"(?<![A-Za-z0-9])key-[0-9a-f]{32}(?![A-Za-z0-9])", ("key-",), in_word=True),
    Rule(
        "mailchimp-key", r"(?<![A-Za-z0-9])[0-9a-f]{32}-us[0-9]{1,2}(?![A-Za-z0-9])", ("-us",), in_word=True, back=(32,)
    ),
    prefixed("mapbox-token", "sk.eyJ", alphabet=r"A-Za-z0-9_.\-"),
    Rule("airtable-token", r"(?<![A-Za-z0-9])pat[A-Za-z0-9]{14}\.[0-9a-f]{16,}", ("pat",), in_word=True),
)

# What a name ends with when its value is a secret. `KEY` alone says nothing (a sort key, a primary key).
SECRET_NAME = (
    r"(?:(?:api|access|secret|private|auth|signing|encryption|master|service|account|deploy|license|shared|admin|"
    r"storage|webhook|session|ssh)[_\-]?key(?:[_\-]?id)?|secret(?:[_\-]?key)?|token|passw(?:or)?d|passphrase|passwd|pwd|"
    r"credentials?|auth)"
    r"(?:[_\-]?(?:value|prod|production|dev|staging|test|live|main|base64|b64|old|new|[0-9]{1,2}))?"
)
NAME_HINTS = ("key", "secret", "token", "passw", "passphrase", "pwd", "credential", "auth")

IN_CONTEXT = (
    Rule(
        "authorization",
        r"(?i)\b(?:bearer|authorization[\"']?\s{0,8}[:=]\s{0,8}[\"']?(?:basic|token|apikey|digest)?)\s{1,8}"
        r"(?P<secret>[A-Za-z0-9._~+/=\-]{12,})",
        ("bearer", "authorization"),
        folded=True,
        guarded=True,
    ),
    Rule(
        "authorization",
        r"(?i)\bx-(?:[a-z]{1,30}+-){0,8}(?:api-?key|key|token|secret)[\"']?\s{0,8}[:=]\s{0,8}[\"']?"
        r"(?P<secret>[A-Za-z0-9._~+/=\-]{8,})",
        ("x-",),
        folded=True,
        guarded=True,
    ),
    Rule(
        "password-in-url",
        r"://[^\s:/@\"'<>\\]{0,100}:(?P<secret>[^\s/@\"'<>\\]{3,200})@",
        ("://",),
        guarded=True,
    ),
    Rule(
        "password",
        r"(?<=\s)(?:-u|--user)(?:=|\s{1,8}|(?=[\"']))[\"']?[A-Za-z0-9_.@\-]{1,64}:(?P<secret>[^\s\"'\\]{6,200})",
        ("-u", "--user"),
        guarded=True,
    ),
    Rule(
        "password",
        r"(?<=\s)--(?:password|pass|passwd|passphrase|token|auth-token|api-key|apikey|secret)(?:=|\s{1,8})"
        r"(?P<quote>[\"'])?(?P<secret>(?(quote)[^\"'\\\n]{8,200}|[^\s\"'\\]{8,200}))",
        ("--pass", "--token", "--auth-token", "--api", "--secret"),
        guarded=True,
    ),
)

_ARGUMENT = r"(?P<quote>[\"'])?(?P<secret>(?(quote)[^\"'\\\n]{4,200}|[^\s\"'\\]{4,200}))"
COMMANDS = (
    Rule(
        "password",
        r"(?i)docker\s{1,4}login\b[^\n|;&]{0,200}?\s(?:-p|--password)[ =]{0,4}" + _ARGUMENT,
        ("docker",),
        folded=True,
        guarded=True,
    ),
    Rule("password", r"sshpass\s{1,4}-p\s{0,4}" + _ARGUMENT, ("sshpass",), guarded=True),
    Rule(
        "password",
        r"(?:mysql|mariadb)[a-z\-]{0,20}\s(?:[^\n|;&]{0,200}?\s)?-p" + _ARGUMENT,
        ("mysql", "mariadb"),
        guarded=True,
    ),
    Rule("password", r"redis-cli\s(?:[^\n|;&]{0,200}?\s)?-a\s{1,4}" + _ARGUMENT, ("redis-cli",), guarded=True),
    Rule(
        "password",
        r"(?i)login\s{1,8}[^\s=:]{1,100}\s{1,8}password\s{1,8}(?P<secret>\S{6,200})",
        ("login",),
        folded=True,
        guarded=True,
    ),
    Rule(
        "password",
        r"(?im)(?<=\n)[ \t]{0,8}password[ \t]{1,8}(?P<secret>(?=\S{0,200}[0-9])\S{8,200})[ \t]{0,8}$",
        ("\npassword", "\n  password", "\n    password", "\n\tpassword"),
        folded=True,
        guarded=True,
        back=(-1,),
    ),
    Rule(
        "cookie",
        r"(?i)(?<![\w])(?:set-)?cookie[\"']?\s{0,8}:\s{0,8}(?:\\*[\"'])?"
        r"(?P<secret>[\w.%$\-]{1,100}=[^\r\n\"'\\]{6,2000})",
        ("cookie",),
        folded=True,
        guarded=True,
        back=(0, 4),
    ),
)

RULES: tuple[Rule, ...] = (*BLOCKS, *MODEL_PROVIDERS, *CODE_HOSTS, *CLOUDS, *SERVICES, *IN_CONTEXT, *COMMANDS)
