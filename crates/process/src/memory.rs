//! The memory of this process that is free.
#![allow(unsafe_code, reason = "the allocator has no other way to be asked")]

/// Gives memory that was freed back to the system.
///
/// glibc keeps what a thread has freed for that thread: the next large value, on another one, takes as much again. This takes about a
/// millisecond for each ten megabytes, so call it after something large only.
pub fn give_back_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes no pointer, locks the allocator itself, and touches no memory that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Resident memory in kilobytes.
    fn resident() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
    }

    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn what_was_freed_is_given_back_and_what_is_in_use_stays() {
        let mut small: Vec<Vec<u8>> = (0..400_000).map(|n| vec![n as u8; 100]).collect();
        // Every thousandth stays, so that nothing is given back by itself.
        let kept: Vec<Vec<u8>> = small.iter_mut().step_by(1000).map(std::mem::take).collect();
        drop(small);
        let before = resident();
        give_back_memory();
        assert!(before - resident() > 20_000, "{before} kB before, {} after", resident());
        assert!(kept.iter().enumerate().all(|(n, bytes)| bytes == &vec![(n * 1000) as u8; 100]));
    }
}
