"""What is taken for a secret, what is not, and that a redactor is consistent and leaves nothing."""

from __future__ import annotations

import base64
import json
import random
import re
import string
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pi_sessions.secret_rules import RULES, SHORTEST_KEY, Rule
from pi_sessions.secrets import Redactor, environment_secrets, find_secrets, names_secret, redact
from pi_sessions.stored import StoredEntry
from tests.sessions.pi_files import CASES

LETTERS = string.ascii_letters + string.digits
HEX = string.digits + "abcdef"

# Shapes as services publish them: beginning, alphabet, length of the rest.
SHAPES = [
    ("sk-ant-api03-", LETTERS + "-_", 93),
    ("sk-proj-", LETTERS + "-_", 120),
    ("sk-", LETTERS, 48),
    ("sk-or-v1-", HEX, 64),
    ("AIza", LETTERS + "-_", 35),
    ("hf_", string.ascii_letters, 34),
    ("gsk_", LETTERS, 52),
    ("xai-", LETTERS, 80),
    ("pplx-", LETTERS, 48),
    ("r8_", LETTERS, 37),
    ("nvapi-", LETTERS + "-_", 64),
    ("ghp_", LETTERS, 36),
    ("gho_", LETTERS, 36),
    ("github_pat_", LETTERS + "_", 82),
    ("glpat-", LETTERS + "-_", 20),
    ("npm_", LETTERS, 36),
    ("pypi-AgEIcHlwaS5vcmc", LETTERS + "-_", 70),
    ("dckr_pat_", LETTERS + "-_", 27),
    ("AKIA", string.ascii_uppercase + "234567", 16),
    ("GOCSPX-", LETTERS + "-_", 28),
    ("ya29.", LETTERS + "-_", 120),
    ("dop_v1_", HEX, 64),
    ("dapi", HEX, 32),
    ("hvs.", LETTERS + "-_", 90),
    ("xoxb-", string.digits, 12),
    ("sk_live_", LETTERS, 24),
    ("rk_test_", LETTERS, 24),
    ("whsec_", LETTERS, 32),
    ("shpat_", HEX, 32),
    ("SG.", LETTERS + "-_", 66),
    ("SK", HEX, 32),
    ("glsa_", LETTERS + "_", 41),
    ("lin_api_", LETTERS, 40),
    ("ntn_", LETTERS, 46),
    ("figd_", LETTERS + "-_", 40),
    ("tskey-auth-", LETTERS + "-", 40),
    ("sbp_", HEX, 40),
    ("AGE-SECRET-KEY-1", "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58),
    ("eyJhbGciOiJIUzI1NiJ9.", LETTERS + "-_", 80),
]
SETTINGS = [
    "{}",
    "use {} please",
    "KEY='{}'",
    'export API_KEY="{}"',
    "curl -H 'Authorization: Bearer {}' https://api.example",
    '{{"api_key": "{}"}}',
    '{{\\"token\\": \\"{}\\"}}',
    "https://app:{}@host/db",
    "({}), and",
    "`{}`",
    "first line\n{}\nlast line",
]


def key_of(shape: tuple[str, str, int], chance: random.Random) -> str:
    """Return a made-up key."""
    beginning, alphabet, length = shape
    return beginning + "".join(chance.choices(alphabet, k=length))


@pytest.mark.parametrize("shape", SHAPES, ids=[shape[0] for shape in SHAPES])
def test_keys_of_every_published_shape_leave_nothing(shape: tuple[str, str, int]) -> None:
    chance = random.Random(shape[0])
    for setting in SETTINGS:
        key = key_of(shape, chance)
        safe, found = redact(setting.format(key))
        assert key not in safe, (setting, safe)
        assert key[len(shape[0]) : len(shape[0]) + 10] not in safe, (setting, safe)
        assert found
        assert "[redacted:" in safe


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ('password: "Tr0ub4dor&3-xyzQW"', 'password: "*"'),
        ('passphrase: "correct horse battery staple 9"', 'passphrase: "*"'),
        ('API_KEY="Ab12&cd34ef56gh"', 'API_KEY="*"'),
        ("DB_PASSWORD='two words'", "DB_PASSWORD='*'"),
        (r"{\"password\": \"Tr0ub4dor, & (3) xyzQW\"}", r"{\"password\": \"*\"}"),
        ("password: Pa55(word)99x", "password: *"),
        ("db_password=abc12;def34ghi", "db_password=*"),
        ("https://x.example/?token=abc123def456&page=2", "https://x.example/?token=*&page=2"),
        ("Server=db;Password=abc12345;Database=x", "Server=db;Password=*;Database=x"),
        ("connect(token=abc123def456, 5)", "connect(token=*, 5)"),
        ("<password>Tr0ub4dor&3</password>", "<password>*</password>"),
        ("<apiKey>Ab12cd34ef56gh</apiKey>", "<apiKey>*</apiKey>"),
        ("machine x.example login me password hunter22x", "machine x.example login me password *"),
        ("machine x\nlogin me\npassword hunter22x\n", "machine x\nlogin me\npassword *\n"),
        ("docker login -u me -p s3cr3tpass registry", "docker login -u me -p * registry"),
        ("sshpass -p s3cr3tpass ssh x", "sshpass -p * ssh x"),
        ("sshpass -p 'two words' ssh x", "sshpass -p '*' ssh x"),
        ("mysql -u root -ps3cr3tpass db", "mysql -u root -p* db"),
        ("redis-cli -h x -a s3cr3tpass ping", "redis-cli -h x -a * ping"),
        ("Cookie: sid=abcdef123456; theme=dark\nAccept: x", "Cookie: *\nAccept: x"),
        ("Set-Cookie: sid=abcdef123456; HttpOnly", "Set-Cookie: *"),
        ("ENV API_KEY Ab12cd34ef56gh", "ENV API_KEY *"),
        ("**Password:** hunter2hunter2", "**Password:** *"),
        ("| API_KEY | Ab12cd34ef56gh |", "| API_KEY | * |"),
        ("| `API_KEY` | `Ab12cd34ef56gh` | x |", "| `API_KEY` | `*` | x |"),
        ("`API_KEY`: `Ab12cd34ef56gh`", "`API_KEY`: `*`"),
        ('--password "correct horse battery"', '--password "*"'),
    ],
)
def test_the_whole_value_goes_and_nothing_else(text: str, safe: str) -> None:
    assert re.sub(r"\[redacted:[a-z0-9\-]+\]", "*", redact(f" {text}")[0]) == f" {safe}"


def test_fields_below_a_field_named_like_a_secret() -> None:
    given_value = {"credentials": {"value": "Ab12cd34ef56gh", "type": "service-account-1"}, "tokens": ["Ab12cd34"]}
    assert Redactor().value(given_value) == {
        "credentials": {"value": "[redacted:secret-1]", "type": "service-account-1"},
        "tokens": ["Ab12cd34"],
    }
    assert Redactor().value({"password": ["Ab12cd34ef", {"value": ["x"]}]})["password"][0] == "[redacted:password-1]"
    assert Redactor().value({"Cookie": "sid=abcdef123456"}) == {"Cookie": "[redacted:cookie-1]"}


@pytest.mark.parametrize("before", ["", "u", "us", "user:"])
def test_a_known_secret_in_base64_goes(before: str) -> None:
    redactor = Redactor(known={"plain-words-secret": "token"})
    encoded = base64.b64encode(f"{before}plain-words-secret".encode()).decode()
    safe = redactor.text(f"see {encoded} there")
    assert encoded[4:-4] not in safe
    assert "[redacted:token-1]" in safe


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("DEPLOY_TOKEN=exampleexampleexampl", "exampleexampleexampl"),
        ("password: hunter2hunter2", "hunter2hunter2"),
        ('db_password = "correct-horse-battery"', "correct-horse-battery"),
        ("PGPASSWORD=s3cr3tpass psql", "s3cr3tpass"),
        ("mysql -u root --password=s3cr3tpass", "s3cr3tpass"),
        ("curl -u admin:s3cr3tpass https://x", "s3cr3tpass"),
        ("postgres://app:p4ss@db/app", "p4ss"),
        ("redis://:longpassword@db:6379", "longpassword"),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzzzzzz", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzzzzzz"),
        ("aws_secret_access_key: 'wJalrXUtnFEMI/K7MDENG'", "wJalrXUtnFEMI/K7MDENG"),
        ("clientSecret: 'a1b2c3d4e5f6'", "a1b2c3d4e5f6"),
        ("X-Api-Key: abcdef123456", "abcdef123456"),
        ("Authorization: Basic dXNlcjpwYXNzd29yZA==", "dXNlcjpwYXNzd29yZA=="),
        ("https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXabcd", "T00000000/B00000000/XXXXXXXXabcd"),
        ("123456789:AAabcdefghijklmnopqrstuvwxyz0123456", "123456789:AAabcdefghijklmnopqrstuvwxyz0123456"),
    ],
)
def test_secrets_known_by_what_stands_before_them(text: str, secret: str) -> None:
    safe, _found = redact(text)
    assert secret not in safe


def test_a_private_key_goes_whole_and_so_does_one_that_was_cut() -> None:
    block = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEexample0\n" * 5 + "-----END RSA PRIVATE KEY-----"
    assert redact(f"a {block} b")[0] == "a [redacted:private-key-1] b"
    assert redact(json.dumps({"k": block}))[0] == '{"k": "[redacted:private-key-1]"}'
    assert "MIIE" not in redact(block[:80])[0]


@pytest.mark.parametrize(
    "text",
    [
        "the commit is 4f2a9c1e8b7d6a5f4e3d2c1b0a9f8e7d6c5b4a39",
        "session 00000000-0000-7000-8000-000000000129",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "token = tokenizer.encode(text)",
        "api_key = os.environ['API_KEY']",
        "apiKey: process.env.OPENAI_API_KEY",
        "API_KEY=${API_KEY}",
        "TOKEN=$TOKEN",
        "GITHUB_TOKEN: ${{ secrets.GITHUB_TOKEN }}",
        "password: str | None = None",
        "max_tokens=4096000000",
        "the token count: 12345678",
        "sort_key=created_at",
        "the primary key: customer_number",
        "API_KEY=your-api-key-here",
        "password: ********",
        "git push -u upstream feature-branch",
        "sk-learn-contrib-and-more-words",
        "token: string; secret: boolean",
        "def authenticate(password: SecretStr) -> Token:",
        "https://example.com:8080/path?q=1",
        "mailto:someone@example.com",
        "ASIANMARKETSINDEX",
        "auth: required",
        "token = tokens[index1]",
        "def run(token: Optional[Str2]=None, x=1)",
        "password = getpass2(prompt).strip()",
        "password = read_1(",
        '"password": "Enter your password"',
        "| token | meaning |",
        "<password>your-password</password>",
        "mysql -p db",
        "login form password field",
        "the cookie: a small file",
        "ENV PATH /usr/local/bin:/bin",
        "[redacted:token-1]",
        "API_TOKEN=[redacted:token-1]",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == (text, [])


def test_marks_are_the_same_for_the_same_secret_and_it_is_replaced_where_it_stands_alone() -> None:
    redactor = Redactor()
    assert redactor.text("DEPLOY_TOKEN=exampleexampleexampl", "a") == "DEPLOY_TOKEN=[redacted:token-1]"
    assert redactor.text("it is exampleexampleexampl.", "b") == "it is [redacted:token-1]."
    assert redactor.text("MY_TOKEN=otherexampleother", "c") == "MY_TOKEN=[redacted:token-2]"
    told = [(each.where, each.mark, each.count) for each in redactor.report()]
    assert told == [("a", "[redacted:token-1]", 1), ("b", "[redacted:token-1]", 1), ("c", "[redacted:token-2]", 1)]
    assert redactor.total == 3


@pytest.mark.parametrize("ending", ["", "…", "...", "… (cut)"])
def test_what_is_left_of_a_secret_that_was_cut_goes_too(ending: str) -> None:
    redactor = Redactor(known={"plainwordsecretvalue99": "api-key"})
    assert redactor.text("about plainwordsec" + ending) == "about [redacted:api-key-1]" + ending
    assert redactor.text("about plainwords and more") == "about plainwords and more"


def test_s29_the_case_leaks_nothing_and_keeps_what_it_should() -> None:
    lines = (CASES / "s29-secrets" / "secrets.jsonl.in").read_text(encoding="utf-8").replace("~", "").splitlines()[1:]
    entries = [StoredEntry.from_dict(json.loads(line)) for line in lines]
    redactor = Redactor(keep=[entry.id for entry in entries])
    for entry in entries:
        redactor.learn_entry(entry)
    safe = [redactor.entry(entry) for entry in entries]
    text = "\n".join(json.dumps(entry.to_dict()) for entry in safe)
    for needle in ("EXAMPLEEX", "exampleex", "IOSFODNN7", "examplepass", "xoxb-", "eyJ"):
        assert needle not in text
    assert "4f2a9c1e8b7d6a5f4e3d2c1b0a9f8e7d6c5b4a39" in text
    assert [entry.id for entry in safe] == [entry.id for entry in entries]
    assert safe[4] is entries[4]
    assert redactor.text("My key is sk-proj-EXAMPLEEXAMPLEEX") == "My key is [redacted:openai-key-1]"
    assert {each.where for each in redactor.report()} >= {"dd000001", "dd000002", "dd000003", "dd000004"}


def test_values_of_the_environment() -> None:
    environ = {
        "ANTHROPIC_API_KEY": "plain-looking-value",
        "GITHUB_TOKEN": "abcdefgh12345678",
        "SSH_AUTH_SOCK": "/run/user/ssh",
        "PATH": "/usr/bin:/bin",
        "DB_PASSWORD": "short",
        "TOKEN_FILE": "/run/secrets/token",
        "API_KEY": "${OTHER}",
    }
    known = environment_secrets(environ)
    assert known == {"plain-looking-value": "anthropic-api-key", "abcdefgh12345678": "github-token"}
    redactor = Redactor(known=known)
    assert redactor.text("say plain-looking-value") == "say [redacted:anthropic-api-key-1]"
    assert redactor.value({"a": ["plain-looking-value", {"plain-looking-value": 1}], "n": 2}) == {
        "a": ["[redacted:anthropic-api-key-1]", {"[redacted:anthropic-api-key-1]": 1}],
        "n": 2,
    }


def test_fields_named_like_secrets_lose_their_whole_value_and_pictures_nothing() -> None:
    redactor = Redactor()
    picture = {"type": "image", "data": "AKIAIOSFODNN7EXAMPLE"}
    given_value = {"env": {"GITHUB_TOKEN": "abcd1234efgh"}, "content": [picture], "id": "x"}
    assert redactor.value(given_value) == {
        "env": {"GITHUB_TOKEN": "[redacted:token-1]"},
        "content": [picture],
        "id": "x",
    }
    assert redactor.value(picture) is picture


def test_ids_that_are_to_stay_stay() -> None:
    key = "ghp_" + "A1b2" * 9
    assert Redactor(keep=[key]).text(f"id {key}") == f"id {key}"


@pytest.mark.parametrize("name", ["API_KEY", "apiKey", "db.password", "GITHUB_TOKEN", "client_secret", "MY_TOKEN_2"])
def test_names_of_secrets(name: str) -> None:
    assert names_secret(name)


@pytest.mark.parametrize("name", ["KEY", "sort_key", "tokens", "token_count", "tokenizer", "author", "", "PATH"])
def test_other_names(name: str) -> None:
    assert not names_secret(name)


@pytest.mark.parametrize(
    "unit",
    [
        "QUJD",
        "sk-",
        "x-",
        "x-a-",
        "eyJ-",
        "eyJaaaaaaaaa.",
        "://",
        "://a:",
        "=",
        ".",
        "api_key_",
        "password=",
        "password=passw0rd1",
        "token   =",
        "authorization: ",
        "bearer ",
        " -u ",
        " --password ",
        "--user a",
        "ASIA",
        "7Q~",
        "MMMM",
        "M.aaaaaa.",
        "1:AA",
        "f-us1",
        "discord.com/api/webhooks/1",
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----_",
        "-----BEGIN A ",
        "...",
        "| token | ",
        "<token>",
        "<token ",
        "ENV token ",
        'password="',
        'password="a\\',
        "docker login ",
        "mysql ",
        "mysql -",
        "login a ",
        "cookie: a=",
        "\npassword 1",
        "password=a(",
        "password=a[",
    ],
)
def test_eight_times_the_text_takes_about_eight_times_as_long(unit: str) -> None:
    """Work that grew with the square of the text would take 64 times as long."""
    base = time_of(unit * (8_000 // len(unit)))
    assert time_of(unit * (64_000 // len(unit))) < 24 * max(base, 0.002)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.kind}-{rule.pattern[:20]}")
def test_repeated_beginnings_of_a_key_cost_no_more_than_their_length(rule: Rule) -> None:
    for hint in rule.hints[:2] or ("M",):
        for between in ("", "-", " ", "_a1"):
            unit = hint + between
            assert time_of(unit * (20_000 // len(unit)), rounds=1) < 0.5, unit


def time_of(text: str, rounds: int = 2) -> float:
    """Return the CPU time a search takes, the best of some rounds, in seconds."""
    best = 1e9
    for _ in range(rounds):
        began = time.process_time()
        find_secrets(text)
        best = min(best, time.process_time() - began)
    return best


def test_plain_text_is_searched_at_twenty_megabytes_a_second() -> None:
    """Half of that is asked for here, for the sake of slow machines."""
    text = "the lease is renewed by whoever holds it, and nobody else may write while it lasts; " * 25_000
    assert len(text) / time_of(text) > 10_000_000


def test_a_secret_is_found_however_deep_it_is_nested() -> None:
    value: object = "ghp_" + "A1b2" * 9
    for _ in range(5000):
        value = [value]
    redactor = Redactor()
    redactor.learn_value(value)
    safe = redactor.value(value)
    for _ in range(5000):
        safe = safe[0]
    assert safe == "[redacted:github-token-1]"


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=60), st.sampled_from(SHAPES), st.text(max_size=60), st.integers(0, 1000))
def test_whatever_surrounds_a_key_it_is_gone_and_doing_it_again_changes_nothing(
    before: str, shape: tuple[str, str, int], after: str, seed: int
) -> None:
    key = key_of(shape, random.Random(seed))
    safe, _ = redact(f"{before} {key} {after}")
    assert key not in safe
    assert redact(safe)[0] == safe


def test_every_rule_compiles_and_has_hints() -> None:
    import re

    for rule in RULES:
        assert re.compile(rule.pattern)
        assert all(rule.hints)
        if rule.in_word:
            least = sum(map(int, re.findall(r"\{(\d+)[,}]", rule.pattern)))
            assert all(len(hint) + least >= SHORTEST_KEY for hint in rule.hints), rule
