//! The heap of this process: how many parts it has, giving memory back to the system, and how much processes have.
#![allow(unsafe_code, reason = "the only way to talk to the allocator of the C library")]

/// Limits the parts (arenas) of the heap. glibc gives eight for each processor to threads, and each keeps what was once used in
/// it. Call it before threads are started. Elsewhere than with glibc this does nothing.
pub fn limit_heap_parts(count: u8) {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: `mallopt` takes two numbers and changes a setting under a lock of its own. If it refuses, all is as it was.
        let _ = unsafe { libc::mallopt(libc::M_ARENA_MAX, count.into()) };
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    let _ = count;
}

/// Gives large blocks back to the system as soon as they are freed. glibc does so at first, and then keeps blocks of the size that
/// was freed last, up to 32 MB. Elsewhere than with glibc this does nothing.
pub fn keep_no_large_blocks() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: `mallopt` takes two numbers and changes a setting under a lock of its own. If it refuses, all is as it was.
        let _ = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 20) };
    }
}

/// Returns free memory of the heap to the system. glibc keeps what a thread has freed for that thread: the next large value, on
/// another one, takes as much again. This takes about a millisecond for each ten megabytes, so call it after something large
/// only. Elsewhere than with glibc this does nothing.
pub fn give_memory_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: `malloc_trim` may be called at any time on any thread: it takes the locks of the allocator, and touches only
        // pages on which nothing is allocated.
        let _ = unsafe { libc::malloc_trim(0) };
    }
}

/// Returns the bytes that this process has in memory; 0 where the system does not tell.
pub fn resident_bytes() -> usize {
    resident_bytes_of(std::process::id())
}

/// Returns the bytes that a process has in memory; 0 where the system does not tell.
pub fn resident_bytes_of(pid: u32) -> usize {
    status_bytes(pid, "VmRSS:")
}

/// Returns the most bytes that a process had in memory since its peak was last reset; 0 where the system does not tell.
pub fn peak_bytes_of(pid: u32) -> usize {
    status_bytes(pid, "VmHWM:")
}

fn status_bytes(pid: u32, figure: &str) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(figure));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<usize>().ok()).unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allocated_outlives_giving_memory_back() {
        limit_heap_parts(2);
        let kept: Vec<Vec<u8>> = (0..1000).map(|n| vec![n as u8; 5000]).collect();
        let some = kept.into_iter().enumerate().filter(|(n, _)| n % 10 == 0).collect::<Vec<_>>();
        give_memory_back();
        assert!(some.iter().all(|(n, bytes)| bytes.iter().all(|byte| *byte == *n as u8)));
    }

    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn what_was_freed_is_given_back_and_what_is_in_use_stays() {
        let mut small: Vec<Vec<u8>> = (0..400_000).map(|n| vec![n as u8; 100]).collect();
        // Every thousandth stays, so that nothing is given back by itself.
        let kept: Vec<Vec<u8>> = small.iter_mut().step_by(1000).map(std::mem::take).collect();
        drop(small);
        let before = resident_bytes();
        give_memory_back();
        let after = resident_bytes();
        assert!(before - after > 20 << 20, "{before} bytes before, {after} after");
        assert!(kept.iter().enumerate().all(|(n, bytes)| bytes == &vec![(n * 1000) as u8; 100]));
    }
}
