//! Finding what a program has started, wherever it has gone.
//!
//! A process that leaves its group, forgets its environment and loses its parent is nobody's child any more, unless this process
//! adopts orphans: then it is ours, and can be told by that.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, WaitOptions};

/// The variable that marks what belongs to a group.
pub(crate) const MARK: &str = "PINCER_GROUP";
/// How often what is left is looked for: something may be starting others faster than it is ended.
const MOST_ROUNDS: usize = 100;

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
    let wanted = format!("{MARK}={mark}");
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let leaders = leaders();
    let Ok(all) = std::fs::read_dir("/proc") else { return Vec::new() };
    let ids = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let belongs = |id: &i32| {
        let process = Path::new("/proc").join(id.to_string());
        let environment = std::fs::read(process.join("environ")).unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0);
        match variables.find(|variable| variable.starts_with(MARK.as_bytes())) {
            Some(mark) => mark == wanted.as_bytes(),
            None if ADOPTING.load(Ordering::Relaxed) => is_orphan_of(&process, own) && !leaders.contains(id),
            None => false,
        }
    };
    ids.filter(|id| *id != own).filter(belongs).filter_map(Pid::from_raw).collect()
}

/// Whether its parent is `own`. One that is over and only waits to be noticed is not counted.
fn is_orphan_of(process: &Path, own: i32) -> bool {
    let stat = std::fs::read_to_string(process.join("stat")).unwrap_or_default();
    // The name in parentheses may hold anything.
    let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let (state, parent) = (fields.next(), fields.next());
    state != Some("Z") && parent.and_then(|parent| parent.parse().ok()) == Some(own)
}

/// Ends all of them, and those they start in the meantime; how many there were at first.
pub(crate) fn kill_all(mark: &str) -> usize {
    let mut first = None;
    for _ in 0..MOST_ROUNDS {
        let found = of_mark(mark);
        first.get_or_insert(found.len());
        if found.is_empty() {
            break;
        }
        for pid in &found {
            let _ = rustix::process::kill_process(*pid, Signal::KILL);
        }
        let leaders = leaders().clone();
        for pid in found.into_iter().filter(|pid| !leaders.contains(&pid.as_raw_nonzero().get())) {
            // An adopted one must be noticed here; a leader is waited for by whoever started it.
            let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }
    first.unwrap_or_default()
}
