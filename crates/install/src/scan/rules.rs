//! The table of patterns. Each is looked for in every line of every text, since commands stand in scripts, manifests and prose alike.

use std::sync::LazyLock;

use regex::RegexSet;

use crate::scan::findings::Severity::{self, Critical, Info, Warning};

/// A pattern, and its probable meaning.
pub(super) struct Rule {
    pub severity: Severity,
    pub id: &'static str,
    pub meaning: &'static str,
    pattern: &'static str,
}

const fn rule(severity: Severity, id: &'static str, meaning: &'static str, pattern: &'static str) -> Rule {
    Rule { severity, id, meaning, pattern }
}

pub(super) const RULES: [Rule; 24] = [
    rule(
        Critical,
        "fetch-and-run",
        "runs what it fetches from the network",
        r"(?i)\b(curl|wget|fetch|iwr|invoke-webrequest)\b[^|;&]*\|\s*(sudo\s+)?(env\s+)?[\w/.-]*\b(sh|bash|zsh|dash|ksh|fish|python[\d.]*|node|perl|ruby|php|iex)\b",
    ),
    rule(
        Critical,
        "fetch-and-run",
        "runs what it fetches from the network",
        r#"(?i)(\b(bash|sh|zsh|source|eval|python[\d.]*|node|perl)\b|(^|[;&\s])\.)\s+(-\w+\s+)*["'<($`]+\s*(curl|wget)\b"#,
    ),
    rule(
        Critical,
        "fetch-and-run",
        "runs what it fetches from the network",
        r"(?i)\b(exec|eval|compile|new Function)\s*\(.{0,80}\b(urlopen|requests\.get|urllib|fetch\(|axios|http\.get)",
    ),
    rule(
        Critical,
        "decode-and-run",
        "runs text that is hidden by an encoding",
        r"(?i)\b(base64\s+(-d|-D|--decode)|xxd\s+-r|openssl\s+(enc|base64)\s+-d)\b.*\|\s*(sudo\s+)?[\w/.-]*\b(sh|bash|zsh|dash|python[\d.]*|node|perl)\b",
    ),
    rule(
        Critical,
        "decode-and-run",
        "runs text that is hidden by an encoding",
        r"(?i)\b(eval|exec|Function|compile)\s*\(.{0,60}\b(atob|b64decode|fromhex|unhexlify|decompress|marshal\.loads|fromCharCode|Buffer\.from\([^)]*base64)",
    ),
    rule(
        Critical,
        "reverse-shell",
        "gives another machine a shell on this one",
        r"(?i)/dev/(tcp|udp)/|\b(nc|ncat|netcat)\b.*\s-\w*[ec]\b|\bsocat\b.*\bexec:|\bpty\.spawn\(",
    ),
    rule(
        Critical,
        "credentials",
        "names a place where keys, passwords or logins are kept",
        r"(?i)(\.ssh/(id_|authorized_keys|config\b)|\bid_(rsa|ed25519|ecdsa|dsa)\b|\.aws/credentials|\.config/gcloud|\.azure/|\.kube/config|\.docker/config\.json|\.netrc\b|\.pgpass\b|\.gnupg/|\.git-credentials|/etc/shadow\b|login\.keychain|find-generic-password|secret-tool\s+lookup|\.mozilla/firefox|Chrome/(User Data|Default)|\.password-store|wallet\.dat|\.npmrc\b|\.pypirc\b|/proc/(self|\d+)/environ)",
    ),
    rule(
        Critical,
        "pincers-own-state",
        "names Pincer's own secrets or store",
        r"(?i)\b(pincer\.db|secrets\.json|mcp-auth)\b",
    ),
    rule(
        Critical,
        "stays-behind",
        "puts something where it is started again later",
        r"(?i)(>>?|tee(\s+-a)?|cat|echo|write|open\()\s*.{0,80}(\.bashrc|\.bash_profile|\.zshrc|\.profile\b|authorized_keys|/etc/(cron|profile|ld\.so\.preload|init\.d|rc\.local|systemd))|\bcrontab\s+(-\s*$|-e|[^-\s])|\bsystemctl\b.*\benable\b|Library/Launch(Agents|Daemons)|\.config/(systemd/user|autostart)",
    ),
    rule(
        Critical,
        "destroys",
        "removes or overwrites far more than its own files",
        r#"(?i)\brm\s+(-\w+\s+)*-\w*[rf]\w*\s+(--no-preserve-root\s+)?["']?(/|~|\$HOME|\$\{HOME\})["']?/?\*?(\s|$|;|&)|\bmkfs(\.\w+)?\s|\bdd\b.*\bof=/dev/|>\s*/dev/(sd|nvme|disk)|:\(\)\s*\{\s*:\|:&\s*\}"#,
    ),
    rule(
        Critical,
        "sends-environment",
        "sends the environment, in which keys are, to another machine",
        r"(?i)\b(env|printenv)\b\s*\|\s*(base64\s*\|\s*)?(curl|wget|nc|ncat)\b|\b(curl|wget)\b.*(\$\(|`)\s*(env|printenv|cat\s+\S*\.env)\b|(JSON\.stringify|json\.dumps)\(\s*(dict\()?(process\.env|os\.environ)\s*\)?\s*\)",
    ),
    rule(
        Critical,
        "set-id",
        "makes a program that runs with the rights of its owner",
        r"(?i)\bchmod\s+(-\w+\s+)*([ug]*\+[rwx]*s|[2467][0-7]{3}\b)|\bsetcap\b",
    ),
    rule(
        Warning,
        "administrator",
        "wants the rights of the administrator",
        r"(?i)(^|[\s;&|(`])(sudo|doas|pkexec|su)\s+-?\w",
    ),
    rule(
        Warning,
        "collects",
        "names a service that takes whatever is sent to it",
        r"(?i)\b(webhook\.site|requestbin|pipedream\.net|ngrok(-free)?\.(io|app|dev)|pastebin\.com|hastebin|transfer\.sh|0x0\.st|file\.io|discord(app)?\.com/api/webhooks|api\.telegram\.org/bot|burpcollaborator|interact\.sh|oast\.\w+|trycloudflare\.com)\b|\.onion\b",
    ),
    rule(
        Warning,
        "installs",
        "fetches and installs other software, which is not looked at here",
        r"(?i)\b(pip3?|pipx|uv|npm|pnpm|yarn|bun|gem|cargo|go|brew|apt|apt-get|dnf|yum|apk|pacman|conda)\s+(-\w+\s+)*(install|add|i|get)\s+\S|\b(npx|uvx|bunx|pnpm\s+dlx|yarn\s+dlx)\s+\S",
    ),
    rule(
        Warning,
        "runs-text",
        "runs text as a program",
        r#"(?i)\b(eval|new Function)\s*\(|\bexec\s*\(\s*[^)]*(compile|open|decode)|\bvm\.run\w*\(|\b(sh|bash)\s+-c\s+["']?\$"#,
    ),
    rule(
        Warning,
        "turns-protection-off",
        "turns a protection off",
        r"(?i)(--no-verify\b|--insecure\b|\bcurl\b.*\s-\w*k\b|verify\s*=\s*False|rejectUnauthorized\s*:\s*false|NODE_TLS_REJECT_UNAUTHORIZED|StrictHostKeyChecking[= ]no|--dangerously-\w+|--no-sandbox\b|--privileged\b|\bset\s+\+o\s+history|HISTFILE=/dev/null|\bspctl\b.*--master-disable|xattr\s+-\w*d\w*\s+com\.apple\.quarantine)",
    ),
    rule(
        Warning,
        "speaks-to-the-model",
        "speaks to a model as if it were its user or its operator",
        r"(?i)\b(ignore|disregard|forget|override)\b.{0,40}\b(previous|prior|above|earlier|all|other|system)\b.{0,30}\b(instruction|prompt|rule|message|guideline)s?\b|\b(do not|don't|never)\b.{0,30}\b(tell|inform|mention|reveal|show|ask|alert)\b.{0,30}\b(the )?(user|human|person|operator|owner)\b|\bwithout\b.{0,20}\b(asking|telling|informing|confirmation|approval)\b|</?(system|assistant|user)>|\b(always|must)\b.{0,20}\b(approve|allow|accept)\b.{0,20}\b(all|every|any)\b",
    ),
    rule(
        Warning,
        "changes-its-instructions",
        "names a file from which agents take their instructions",
        r"\b(AGENTS|CLAUDE|GEMINI|SOUL|MEMORY|IDENTITY|BOOTSTRAP)\.md\b|\.cursorrules\b|copilot-instructions\.md|\bpincer\.json5\b",
    ),
    rule(
        Warning,
        "open-to-all",
        "lets every user of the machine change something",
        r"(?i)\bchmod\s+(-\w+\s+)*(0?777|a\+\w*w|o\+\w*w)\b",
    ),
    rule(
        Info,
        "starts-programs",
        "starts other programs",
        r"(?i)\b(subprocess\.\w+\(|os\.(system|popen|exec\w*|spawn\w*)\(|child_process|execSync\(|spawnSync\(|Deno\.(run|Command)|Process\.Start|Runtime\.getRuntime|std::process::Command|exec\.Command\()",
    ),
    rule(
        Info,
        "uses-the-network",
        "uses the network",
        r"(?i)(\b(curl|wget|ssh|scp|rsync|sftp|ftp|telnet|ncat|netcat)\s+\S|\bimport\s+(socket|requests|httpx|aiohttp|urllib)|\bfrom\s+(urllib|http\.client|requests|httpx|aiohttp)\b|\bfetch\(|\brequire\(.(node:)?(https?|net|dgram|tls|axios).\)|\bfrom\s+.(node:)?(https?|net|dgram|axios|undici).|\bWebSocket\(|\bXMLHttpRequest\b|\breqwest::|\bnet/http\b)",
    ),
    rule(
        Info,
        "leaves-its-folder",
        "names a path outside its folder",
        r#"(^|[\s"'`=(<>|])(\.\./|~/|\$HOME/|/(etc|home|Users|root|var|opt|srv|mnt|boot|proc|sys|Library|private)/)"#,
    ),
    rule(
        Info,
        "loads-libraries",
        "loads compiled code",
        r"(?i)\b(ctypes\.(CDLL|cdll)|dlopen|LD_PRELOAD|DYLD_INSERT_LIBRARIES|ffi\.Library|process\.dlopen)\b",
    ),
];

/// All patterns. Each is compiled once; one that could not be compiled would be a bug that a test finds.
pub(super) static PATTERNS: LazyLock<RegexSet> =
    LazyLock::new(|| RegexSet::new(RULES.iter().map(|rule| rule.pattern)).unwrap_or_else(|_| RegexSet::empty()));
