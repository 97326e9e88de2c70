//! Finding what a program has started, wherever it has gone.
//!
//! A process that leaves its group, forgets its environment and loses its parent is nobody's child any more, unless this process
//! adopts orphans: then it is ours, and can be told by that.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions};

/// The variable that marks what belongs to a group.
pub(crate) const MARK: &str = "PINCER_GROUP";
/// How long those are pursued that start others as fast as they are ended.
const PURSUIT: Duration = Duration::from_millis(500);

static ADOPTING: AtomicBool = AtomicBool::new(false);
/// The programs that have been started here and not been seen to end.
static LEADERS: Mutex<Vec<i32>> = Mutex::new(Vec::new());

/// Orphans of what is started here become children of this process, and end with the group they came from or the next that ends.
/// Only for a program all of whose children are [`Group`](crate::Group)s: others would be taken for orphans.
pub fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    if rustix::process::set_child_subreaper(Some(rustix::process::getpid())).is_ok() {
        ADOPTING.store(true, Ordering::Relaxed);
    }
}

fn leaders() -> MutexGuard<'static, Vec<i32>> {
    LEADERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a program and notes it as one of ours. Nobody looks for orphans meanwhile: until it has become another program, a child
/// looks like one.
pub(crate) fn start_leader<T>(start: impl FnOnce() -> io::Result<(T, i32)>) -> io::Result<T> {
    let mut leaders = leaders();
    let (started, pid) = start()?;
    leaders.push(pid);
    Ok(started)
}

pub(crate) fn forget_leader(pid: i32) {
    leaders().retain(|leader| *leader != pid);
}

/// What belongs to a mark: those that carry it, and orphans that carry none.
pub(crate) fn of_mark(mark: &str) -> Vec<Pid> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let leaders = leaders();
    let Ok(all) = std::fs::read_dir("/proc") else { return Vec::new() };
    let ids = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let belongs = |id: &i32| match mark_of(*id) {
        Some(other) => other == mark,
        None => is_adopting() && !leaders.contains(id) && is_child(*id, own),
    };
    ids.filter(|id| *id != own).filter(belongs).filter_map(Pid::from_raw).collect()
}

/// The orphans among our children that carry this mark or none: a quicker look, for those that run away by starting others. Those
/// that are over are noticed on the way.
fn adopted(mark: &str) -> Vec<Pid> {
    if !is_adopting() {
        return Vec::new();
    }
    let leaders = leaders();
    let lists = std::fs::read_dir("/proc/self/task").into_iter().flatten().filter_map(Result::ok);
    let lists = lists.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let children: Vec<i32> =
        lists.flat_map(|list| list.split(' ').filter_map(|id| id.trim().parse().ok()).collect::<Vec<_>>()).collect();
    let mut found = Vec::new();
    for id in children.into_iter().filter(|id| !leaders.contains(id)) {
        let Some(pid) = Pid::from_raw(id) else { continue };
        // A leader is waited for by whoever started it; an orphan by nobody else.
        if matches!(rustix::process::waitpid(Some(pid), WaitOptions::NOHANG), Ok(Some(_))) {
            continue;
        }
        if mark_of(id).is_none_or(|other| other == mark) {
            found.push(pid);
        }
    }
    found
}

fn is_adopting() -> bool {
    ADOPTING.load(Ordering::Relaxed)
}

/// The mark that a process was started with. One that is over, or that is not ours to look at, has none.
fn mark_of(id: i32) -> Option<String> {
    let environment = std::fs::read(Path::new("/proc").join(id.to_string()).join("environ")).ok()?;
    let mut variables = environment.split(|byte| *byte == 0);
    let mark = variables.find_map(|variable| variable.strip_prefix(MARK.as_bytes())?.strip_prefix(b"="))?;
    Some(String::from_utf8_lossy(mark).into_owned())
}

/// Whether its parent is `own`. One that is over and only waits to be noticed is not counted.
fn is_child(id: i32, own: i32) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(id.to_string()).join("stat")).unwrap_or_default();
    // The name in parentheses may hold anything.
    let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let (state, parent) = (fields.next(), fields.next());
    state != Some("Z") && parent.and_then(|parent| parent.parse().ok()) == Some(own)
}

/// Kills processes, each with its process group: one that starts another and ends, again and again, is over before a signal reaches
/// it, but its group is not.
fn kill(pids: &[Pid]) {
    let own = rustix::process::getsid(None).ok();
    for pid in pids {
        // Whatever is started here has a session of its own, and so have all groups in that session.
        let is_apart = rustix::process::getsid(Some(*pid)).is_ok_and(|session| Some(session) != own);
        if let (true, Ok(group)) = (is_apart, rustix::process::getpgid(Some(*pid))) {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        let _ = rustix::process::kill_process(*pid, Signal::KILL);
    }
}

/// Ends all of them, and those they start in the meantime; how many there were at first.
pub(crate) fn kill_all(mark: &str) -> usize {
    let first = of_mark(mark);
    kill(&first);
    let deadline = Instant::now() + PURSUIT;
    while Instant::now() < deadline {
        let mut left = adopted(mark);
        if left.is_empty() {
            left = of_mark(mark);
        }
        if left.is_empty() {
            break;
        }
        kill(&left);
    }
    first.len()
}
