//! Orphans: processes that have left their group, forgotten its mark and lost their parent.
//!
//! Adopting orphans changes the whole process, so these tests have one of their own, and one runs at a time.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, PipeReader, Read, Write, pipe};
use std::process::Stdio;
use std::time::Duration;

use pincer_process::{Group, Start, adopt_orphans};
use tokio::sync::{Mutex, MutexGuard};

/// How long an event may take before a test fails.
const PATIENCE: Duration = Duration::from_secs(20);

static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

async fn adopting() -> MutexGuard<'static, ()> {
    let alone = ONE_AT_A_TIME.lock().await;
    adopt_orphans();
    alone
}

fn started(words: &[&str], stdin: Stdio) -> Group {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let environment = vec![("PATH".to_owned(), std::env::var("PATH").unwrap())];
    Group::start(Start { words: &words, directory: "/".into(), environment, stdin }).unwrap()
}

/// Starts a Python program with a pipe as its standard input, through which it writes. The pipe ends when the last process is over
/// that has it open, however far that has run away.
fn python(code: &str) -> (Group, BufReader<PipeReader>) {
    let (read, write) = pipe().unwrap();
    (started(&["python3", "-c", code], write.into()), BufReader::new(read))
}

/// Reads on a thread of its own, and fails if that takes too long.
async fn within<R: Send + 'static>(what: &str, read: impl FnOnce() -> R + Send + 'static) -> R {
    let (tell, told) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || tell.send(read()).is_ok());
    tokio::time::timeout(PATIENCE, told).await.unwrap_or_else(|_| panic!("not in time: {what}")).unwrap()
}

/// Waits until a line comes.
async fn line(mut from: BufReader<PipeReader>) -> (String, BufReader<PipeReader>) {
    let read = move || {
        let mut line = String::new();
        from.read_line(&mut line).unwrap();
        (line.trim_end().to_owned(), from)
    };
    within("a line", read).await
}

/// Waits until every process is over that has the pipe open.
async fn all_over(mut from: BufReader<PipeReader>) {
    within("the end of every process", move || from.read_to_end(&mut Vec::new())).await.unwrap();
}

/// Begins anew with an empty environment in a session of its own, with a parent that is over, and deaf to a request to end. What
/// follows is the orphan.
const RUN_AWAY: &str = "
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if len(sys.argv) == 1:
    if os.fork(): time.sleep(1000)
    os.setsid()
    if os.fork(): os._exit(0)
    code = open('/proc/self/cmdline', 'rb').read().split(b'\\0')[2]
    os.execve(sys.executable, [sys.executable, '-c', code, 'orphan'], {})
for _ in range(10000):
    if os.getppid() == PARENT: break
    time.sleep(0.001)
";

fn orphan(then: &str) -> String {
    RUN_AWAY.replace("PARENT", &std::process::id().to_string()) + then
}

#[tokio::test]
async fn an_orphan_that_has_left_everything_ends_with_its_group() {
    let _alone = adopting().await;
    let (mut group, pipe) = python(&orphan("os.write(0, b'up\\n'); time.sleep(1000)"));
    let (said, pipe) = line(pipe).await;
    assert_eq!(said, "up");
    group.end().await;
    all_over(pipe).await;
}

#[tokio::test]
async fn an_orphan_is_swept_away_after_its_leader_has_ended_by_itself() {
    let _alone = adopting().await;
    let leader_ends = orphan("os.write(0, b'up\\n'); time.sleep(1000)")
        .replace("if os.fork(): time.sleep(1000)", "if os.fork(): os._exit(0)");
    let (mut group, pipe) = python(&leader_ends);
    let (said, pipe) = line(pipe).await;
    assert_eq!(said, "up");
    assert!(group.child.wait().await.unwrap().success());
    assert_eq!(group.sweep(), 1);
    all_over(pipe).await;
    let mut other = started(&["true"], Stdio::null());
    assert!(other.child.wait().await.unwrap().success());
    assert_eq!(other.sweep(), 0);
}

#[tokio::test]
async fn an_orphan_that_starts_another_and_ends_again_and_again_is_caught() {
    let _alone = adopting().await;
    // Without the test, it ends by itself.
    let again =
        "os.write(0, b'up\\n')\nwhile os.getppid() != 1:\n    time.sleep(0.003)\n    if os.fork(): os._exit(0)\n";
    let (mut group, pipe) = python(&orphan(again));
    let (said, pipe) = line(pipe).await;
    assert_eq!(said, "up");
    group.end().await;
    // Its group may look for it just while it is between two lives; then it ends with the next group.
    let over = all_over(pipe);
    tokio::pin!(over);
    let next = async || loop {
        started(&["true"], Stdio::null()).end().await;
    };
    tokio::select! {
        () = &mut over => {}
        () = next() => {}
    }
}

#[tokio::test]
async fn orphans_that_are_over_are_waited_for() {
    let _alone = adopting().await;
    let (mut group, pipe) = python(&orphan("os.write(0, b'%d\\n' % os.getpid()); time.sleep(1000)"));
    let (pid, pipe) = line(pipe).await;
    let place = std::path::Path::new("/proc").join(&pid);
    assert!(place.exists(), "{pid}");
    group.end().await;
    all_over(pipe).await;
    // One that was killed just now may be noticed when the next group ends.
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while place.exists() {
        assert!(tokio::time::Instant::now() < deadline, "{pid} is over, and its parent has not noticed");
        started(&["true"], Stdio::null()).end().await;
    }
}

#[tokio::test]
async fn a_program_without_a_mark_is_no_orphan_while_its_group_is_there() {
    let _alone = adopting().await;
    let (read, mut write) = pipe().unwrap();
    let mut cat = started(&["env", "-i", "/bin/cat"], read.into());
    let mut said = tokio::io::BufReader::new(cat.child.stdout.take().unwrap());
    let mut echo = async |text: &str| {
        write.write_all(text.as_bytes()).unwrap();
        let mut line = String::new();
        let reading = tokio::io::AsyncBufReadExt::read_line(&mut said, &mut line);
        tokio::time::timeout(PATIENCE, reading).await.expect("a line in time").unwrap();
        assert_eq!(line, text);
    };
    // From now on it is `cat`, with nothing in its environment.
    echo("before\n").await;
    let (mut other, pipe) = python("import os, time; os.write(0, b'up\\n'); time.sleep(1000)");
    let (_, pipe) = line(pipe).await;
    other.end().await;
    all_over(pipe).await;
    echo("after\n").await;
}
