//! The heap of this process: how many parts it has, and giving memory back to the system.
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

/// Returns free memory of the heap to the system, in milliseconds. Elsewhere than with glibc this does nothing.
pub fn give_memory_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: `malloc_trim` may be called at any time on any thread: it takes the locks of the allocator, and touches only
        // pages on which nothing is allocated.
        let _ = unsafe { libc::malloc_trim(0) };
    }
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
}
