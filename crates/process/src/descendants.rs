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

/// The variable that marks the processes of a group.
pub(crate) const MARK: &str = "PINCER_GROUP";
/// The time for which processes are pursued that start others as fast as they are ended.
const PURSUIT: Duration = Duration::from_millis(500);
/// The most times that the children of this process are listed, to see the same ones twice.
const LOOKS: usize = 4;

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
    let (children, _) = children();
    orphans(children, &leaders, mark)
}

/// Returns whether nothing is left of a mark whose leader is over and has been waited for, as far as that can be told without a look at
/// every process of the machine: what the leader has left behind has become a child of this process, or a descendant of one.
pub(crate) fn is_extinct(mark: &str) -> bool {
    if !is_adopting() {
        return false;
    }
    let leaders = leaders();
    let mut before = None;
    // A list that changes while it is read may lack a child that was there all along. It is whole if a second look sees the same.
    for _ in 0..LOOKS {
        let (seen, is_all) = children();
        if !is_all || !orphans(seen.clone(), &leaders, mark).is_empty() {
            return false;
        }
        if before.as_ref() == Some(&seen) {
            return true;
        }
        before = Some(seen);
    }
    false
}

/// Returns the children of this process, those that are over included, and whether the system has listed those of each thread.
fn children() -> (Vec<i32>, bool) {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return (Vec::new(), false) };
    let (mut found, mut is_all) = (Vec::new(), true);
    for thread in threads {
        match thread.and_then(|thread| std::fs::read_to_string(thread.path().join("children"))) {
            Ok(list) => found.extend(list.split_ascii_whitespace().filter_map(|id| id.parse::<i32>().ok())),
            // A thread that is over has left its children to another.
            Err(_) => is_all = false,
        }
    }
    (found, is_all)
}

/// Returns the orphans among children that carry this mark or none. Those that are over are noticed on the way.
fn orphans(children: Vec<i32>, leaders: &[i32], mark: &str) -> Vec<Pid> {
    let unled = children.into_iter().filter(|id| !leaders.contains(id)).filter_map(Pid::from_raw);
    // A leader is waited for where it was started; an orphan only here.
    let alive = unled.filter(|pid| !matches!(rustix::process::waitpid(Some(*pid), WaitOptions::NOHANG), Ok(Some(_))));
    alive.filter(|pid| mark_of(pid.as_raw_nonzero().get()).is_none_or(|other| other == mark)).collect()
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

/// The standing of a process as the system tells it, as far as it matters here. Numbers are zero where they belong to another PID namespace.
struct Standing {
    is_over: bool,
    parent: i32,
    group: i32,
    session: i32,
}

impl Standing {
    fn of(id: &str) -> Option<Self> {
        Self::read(&std::fs::read_to_string(Path::new("/proc").join(id).join("stat")).ok()?)
    }

    fn read(stat: &str) -> Option<Self> {
        // The name in parentheses may hold anything.
        let mut fields = stat.rsplit(')').next()?.split_whitespace();
        let is_over = fields.next()? == "Z";
        let mut number = || fields.next()?.parse().ok();
        Some(Self { is_over, parent: number()?, group: number()?, session: number()? })
    }

    /// Returns the group that may be ended with this process: one in another session than ours. Every program that is started here has a
    /// session of its own, and so have all groups in that session.
    fn group_apart_from(&self, own: &Self) -> Option<Pid> {
        if self.session == own.session || self.group == own.group { None } else { Pid::from_raw(self.group) }
    }
}

/// Returns whether a process is a child of `own`. One that is over and only waits to be noticed is not counted.
fn is_child(id: i32, own: i32) -> bool {
    Standing::of(&id.to_string()).is_some_and(|standing| !standing.is_over && standing.parent == own)
}

/// Kills processes, each with its process group: one that starts another and ends, again and again, is over before a signal reaches
/// it, but its group is not.
fn kill(pids: &[Pid]) {
    let own = Standing::of("self");
    for pid in pids {
        let standing = Standing::of(&pid.as_raw_nonzero().to_string());
        let group = standing.zip(own.as_ref()).and_then(|(standing, own)| standing.group_apart_from(own));
        if let Some(group) = group {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(group: i32, session: i32) -> Standing {
        Standing::read(&format!("7 (a) b) S 3 {group} {session} 0 -1")).expect("a line of /proc")
    }

    #[test]
    fn only_a_group_of_another_session_ends_with_its_process() {
        let ends = |(group, session), (own_group, own_session)| {
            let group = standing(group, session).group_apart_from(&standing(own_group, own_session));
            group.map(|group| group.as_raw_nonzero().get())
        };
        assert_eq!(ends((7, 7), (5, 4)), Some(7));
        assert_eq!(ends((7, 4), (5, 4)), None, "our own session");
        // In a container whose processes were started from outside, our own numbers are zero; a signal to group zero would reach us.
        assert_eq!(ends((7, 7), (0, 0)), Some(7));
        assert_eq!(ends((0, 0), (0, 0)), None);
        assert_eq!(ends((0, 0), (5, 4)), None);
    }

    #[test]
    fn the_name_of_a_process_says_nothing_of_its_standing() {
        let standing = Standing::read("7 (x) Z 1 1 1) S 3 5 4 0 -1").expect("a line of /proc");
        assert_eq!((standing.is_over, standing.parent, standing.group, standing.session), (false, 3, 5, 4));
        assert!(Standing::read("7 (x) Z 3 7 7 0").expect("a line of /proc").is_over);
        assert!(Standing::read("").is_none() && Standing::read("7 (x) S 3").is_none());
    }
}
