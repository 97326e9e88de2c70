//! Limits that the system sets: a command that meets one says which, and ends in its own way.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Output, Stdio};
use std::thread;

use common::Home;
use serde_json::Value;

/// Runs a command as another user, if this one may become another, with so many processes and threads more than that user has.
/// Everything the command leaves behind is waited for: until then it counts for the next one. A command that hangs is killed, and
/// ends with 137.
const LIMITED: &str = r#"
import ctypes, os, resource, signal, sys
limit, user, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
# By its handle: the other user may not be allowed to get to it by its path.
program = os.open(command[0], os.O_RDONLY)
def threads(process):
    try:
        return len(os.listdir(f"/proc/{process}/task")) if os.stat(f"/proc/{process}").st_uid == os.getuid() else 0
    except OSError:
        return 0
pid = os.fork()
if pid == 0:
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    else:
        limit += sum(threads(process) for process in os.listdir("/proc") if process.isdigit()) - 1
    resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))
    os.execve(program, command, os.environ)
os.close(0)
signal.signal(signal.SIGALRM, lambda *_: os.kill(pid, signal.SIGKILL))
signal.alarm(60)
code = 1
while True:
    try:
        ended, status = os.wait()
    except ChildProcessError:
        break
    if ended == pid:
        code = os.waitstatus_to_exitcode(status)
        os.close(1)
        os.close(2)
os._exit(code % 256)
"#;

/// More than any command here needs.
const ENOUGH: u32 = 24;

fn is_root() -> bool {
    rustix::process::getuid().is_root()
}

/// A user of this test alone: what others run does not count. If this process may not become another user, it is the same.
struct User {
    id: u32,
    home: Home,
}

impl User {
    /// The user of this number, with a home where the engine is compiled.
    fn new(number: u32) -> Self {
        let id = 61_000 + 2 * (std::process::id() % 2_000) + number;
        let home = Home::with(r#"{ tools: { exec: { mode: "full" } } }"#);
        if is_root() {
            for path in [home.path(""), home.path("pincer.json5")] {
                std::os::unix::fs::chown(path, Some(id), Some(id)).unwrap();
            }
        }
        let user = Self { id, home };
        let (code, _, err) = user.run(ENOUGH, &["exec", "-e", "return 1"], "");
        assert_eq!(code, 0, "{err}");
        user
    }

    /// Exit code, stdout, stderr. A server gets the input, and has it open until it has answered the second request.
    fn run(&self, limit: u32, arguments: &[&str], input: &str) -> (i32, String, String) {
        let home = &self.home;
        let pincer = home.command(arguments);
        let mut python = Command::new("python3");
        python.args(["-c", LIMITED, &limit.to_string(), &self.id.to_string()]);
        python.arg(pincer.get_program()).args(pincer.get_args()).current_dir(home.path("")).env_clear();
        python.envs(pincer.get_envs().filter_map(|(name, value)| Some((name, value?))));
        // The cache of other tests is not that user's.
        python.env("XDG_CACHE_HOME", home.path(".cache"));
        python.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = python.spawn().expect("python3");
        let mut stdin = running.stdin.take().unwrap();
        let mut errors = running.stderr.take().unwrap();
        let errors = thread::spawn(move || {
            let mut text = String::new();
            errors.read_to_string(&mut text).map(|_| text)
        });
        // It may have ended before.
        let _ = stdin.write_all(input.as_bytes());
        let mut out = String::new();
        let mut stdout = BufReader::new(running.stdout.take().unwrap());
        let answered = |out: &str| !input.is_empty() && out.contains(r#""id":2"#);
        while !answered(&out) && stdout.read_line(&mut out).unwrap() > 0 {}
        drop(stdin);
        stdout.read_to_string(&mut out).unwrap();
        let code = running.wait().unwrap().code().expect("an exit code");
        (code, out, errors.join().unwrap().unwrap())
    }
}

#[test]
fn a_limit_on_processes_is_an_error_that_names_it() {
    let user = User::new(0);
    let tools = "await tools.write({ path: 'a', content: 'b' });
        await Promise.all([1, 2, 3].map(() => tools.find({ pattern: '*' })));
        return (await tools.exec({ command: 'echo hi' })).stdout";
    let long =
        format!("const start = Date.now(); while (Date.now() - start < 50); return '{}'.length", "x".repeat(20_000));
    let requests = [
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"exec","arguments":{"code":"return (await tools.find({ pattern: '*' })).paths.length"}}}"#,
        "",
    ]
    .join("\n");
    for (arguments, input) in [
        (&["exec", "-e", "return 1"][..], ""),
        (&["exec", "--json", "-e", "return 1"], ""),
        (&["exec", "--json", "-e", tools], ""),
        (&["exec", "-e", &long], ""),
        (&["tools", "call", "find", r#"{ "pattern": "*" }"#], ""),
        (&["tools", "call", "exec", r#"{ "command": "echo hi" }"#], ""),
        (&["runs", "list"], ""),
        (&["mcp", "serve"], &requests),
    ] {
        for limit in (1..=9).chain([ENOUGH]) {
            let (code, out, err) = user.run(limit, arguments, input);
            let what = format!("{arguments:?} with {limit}: {code} {out} {err}");
            assert!(!err.contains("panicked") && (code == 0 || code == 1), "{what}");
            if code == 0 {
                assert!(!out.is_empty(), "{what}");
            } else {
                assert!(
                    limit < ENOUGH && (out.clone() + &err).contains("a limit on processes is probably reached"),
                    "{what}"
                );
            }
            if arguments.contains(&"--json") && code == 1 {
                let result: Value = serde_json::from_str(&out).expect("a result");
                assert_eq!(result["status"], "failed", "{what}");
                // A command that cannot be started is its tool's error.
                assert!(
                    result["code"] == "runtime_unavailable" || result["error"].to_string().contains("ToolError"),
                    "{what}"
                );
            }
            // Of an ordinary user, others may end in the meantime.
            assert!(limit > 1 || !is_root() || code == 1 || arguments == ["runs", "list"], "{what}");
        }
    }
}

#[test]
fn an_engine_is_compiled_without_threads_of_its_own() {
    let user = User::new(1);
    let program = ["exec", "-e", "return 1"];
    // The first limit that is enough once the engine is compiled leaves no thread for the compiler.
    let least = (2..ENOUGH).find(|limit| user.run(*limit, &program, "").0 == 0).unwrap();
    std::fs::remove_dir_all(user.home.path(".cache")).unwrap();
    let (code, out, err) = user.run(least, &program, "");
    assert!(!err.contains("panicked"), "{err}");
    // What an ordinary user has besides may change in the meantime.
    assert!((code == 0 && out == "1\n" && err.contains("compiling")) || !is_root(), "{code} {err}");
}

/// Runs pincer where no file may have more than so many blocks of 512 bytes.
fn with_files_of(home: &Home, blocks: u32, arguments: &[&str]) -> Output {
    let pincer = home.command(arguments);
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit -f {blocks}; exec \"$0\" \"$@\"")]);
    shell.arg(pincer.get_program()).args(pincer.get_args()).current_dir(home.path("")).env_clear();
    shell.envs(pincer.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.output().expect("sh")
}

#[test]
fn a_limit_on_file_sizes_is_an_error_of_the_store() {
    let home = Home::with(r#"{ tools: { exec: { mode: "full" } } }"#);
    assert_eq!(home.run(&["exec", "-e", "return 1"]).0, 0, "the store is made, and the engine compiled");
    // Numbers that do not compress.
    let large =
        "const heap = Array.from({ length: 200_000 }, () => Math.random()); await yield_control(); return heap.length";
    let output = with_files_of(&home, 2048, &["exec", "-e", large]);
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{:?} {err}", output.status);
    assert!(err.contains("error: ") && err.contains("the store"), "{err}");
    // What fits goes on, and a command that it starts meets the limit as ever: SIGXFSZ ends it.
    let flood =
        "const { signal } = await tools.exec({ command: 'exec head -c 10000000 /dev/zero > flood' }); return signal";
    let output = with_files_of(&home, 2048, &["exec", "-e", flood]);
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(0), &b"25\n"[..]), "{err}");
}
