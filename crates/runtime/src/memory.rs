//! How much memory programs may have together, by the config or by what the machine or its container has.

use std::fs;
use std::path::{Path, PathBuf};

use pincer_codemode::{Memory, MemoryBudget, Resident};
use pincer_config::keys::CodeModeFields;
use pincer_process::resident_bytes;

use crate::settings::program_settings;

/// The memory of the process besides programs: its code, connections, the store, and pages kept for the next programs.
const ALLOWANCE: usize = 128 << 20;
/// The memory of one program besides its limit, and of a few small programs beside it.
const BESIDES: usize = 32 << 20;
/// Where the system says nothing.
const UNKNOWN: u64 = 4 << 30;

/// Returns the memory of all programs. Large ones that are put aside go to `scratch`.
pub(crate) fn memory(fields: &CodeModeFields, scratch: Option<PathBuf>) -> Memory {
    let bytes = budget(fields, available(Path::new("/")));
    let read = || Some(resident_bytes()).filter(|bytes| *bytes > 0);
    let resident =
        Resident { most: bytes.saturating_add(ALLOWANCE), read, give_back: pincer_process::give_memory_back };
    Memory { budget: MemoryBudget::new(bytes), scratch, resident: Some(resident) }
}

/// Returns the budget of the config; otherwise half of the available memory, and at least as much as one program may use.
fn budget(fields: &CodeModeFields, available: Option<u64>) -> usize {
    let one = program_settings(fields).limits.memory_bytes.saturating_add(BESIDES);
    let half = usize::try_from(available.unwrap_or(UNKNOWN) / 2).unwrap_or(usize::MAX / 4);
    let said = fields.memory_budget_bytes.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX / 4));
    said.unwrap_or(half.max(one))
}

/// Returns the memory of the machine, or what the control groups of this process leave of it. `root` is `/`, except in tests.
fn available(root: &Path) -> Option<u64> {
    let read = |path: &str| fs::read_to_string(root.join(path)).ok();
    let total = read("proc/meminfo").and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    });
    let groups = read("proc/self/cgroup").unwrap_or_default();
    let limits = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        // Version 2 has one hierarchy for all controllers, without a name.
        let (mounts, file) = match controllers {
            "" => (&["sys/fs/cgroup", "sys/fs/cgroup/unified"][..], "memory.max"),
            named if named.split(',').any(|name| name == "memory") => {
                (&["sys/fs/cgroup/memory"][..], "memory.limit_in_bytes")
            }
            _ => return None,
        };
        mounts.iter().filter_map(|mount| lowest(&root.join(mount), path, file)).min()
    });
    limits.chain(total).min()
}

/// Returns the lowest limit of a group and those above it. In a container the file system begins at its own group,
/// under another name than outside: groups that are not there are passed over.
fn lowest(mount: &Path, group: &str, file: &str) -> Option<u64> {
    let group = Path::new(group.trim_start_matches('/'));
    let limit = |group: &Path| fs::read_to_string(mount.join(group).join(file)).ok()?.trim().parse::<u64>().ok();
    group.ancestors().filter_map(limit).min()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    /// A machine of 8 GiB with these files.
    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [("proc/meminfo", "MemTotal:        8388608 kB\nMemFree: 1 kB\n")].iter().chain(files) {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn check(files: &[(&str, &str)], expected: u64) {
        assert_eq!(available(machine(files).path()), Some(expected), "{files:?}");
    }

    #[test]
    fn the_lowest_limit_along_the_hierarchy_counts() {
        check(&[], 8 * GIB);
        let v2 = ("proc/self/cgroup", "0::/system.slice/pincer.service\n");
        check(&[v2], 8 * GIB);
        check(&[v2, ("sys/fs/cgroup/system.slice/pincer.service/memory.max", "max\n")], 8 * GIB);
        let own = ("sys/fs/cgroup/system.slice/pincer.service/memory.max", "2147483648\n");
        check(&[v2, own], 2 * GIB);
        check(&[v2, own, ("sys/fs/cgroup/system.slice/memory.max", "1073741824\n")], GIB);
        check(&[v2, own, ("sys/fs/cgroup/memory.max", "99999999999999\n")], 2 * GIB);
        // A container sees its own group at the root, under another name or none.
        check(&[("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/memory.max", "419430400\n")], 400 << 20);
    }

    #[test]
    fn limits_of_the_first_version_count_too() {
        let v1 = ("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/docker/abc\n0::/\n");
        let none = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        check(&[v1, none], 8 * GIB);
        check(&[v1, none, ("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "1073741824\n")], GIB);
        check(&[v1, ("sys/fs/cgroup/memory/memory.limit_in_bytes", "419430400\n")], 400 << 20);
        check(&[v1, ("sys/fs/cgroup/cpu/a/memory.limit_in_bytes", "1\n")], 8 * GIB);
    }

    #[test]
    fn the_budget_is_half_of_it_and_one_program_always_fits() {
        let usual = CodeModeFields::default();
        assert_eq!(budget(&usual, Some(8 * GIB)), 4 << 30);
        assert_eq!(budget(&usual, Some(400 << 20)), 200 << 20);
        assert_eq!(budget(&usual, Some(64 << 20)), 96 << 20);
        let large = CodeModeFields { memory_limit_bytes: Some(GIB), ..CodeModeFields::default() };
        assert_eq!(budget(&large, Some(GIB)), (1 << 30) + BESIDES);
        let said = CodeModeFields { memory_budget_bytes: Some(GIB), ..CodeModeFields::default() };
        assert_eq!(budget(&said, Some(400 << 20)), 1 << 30);
    }
}
