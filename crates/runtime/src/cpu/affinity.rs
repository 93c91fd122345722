//! Cores and threads. All of this is a hint: where it is not possible, threads move as the system likes.

pub(super) use system::*;

#[cfg(target_os = "linux")]
mod system {
    use std::mem;

    /// The cores that this thread may use.
    pub(in crate::cpu) fn allowed_cores() -> Vec<usize> {
        let Some(set) = allowed() else { return Vec::new() };
        // SAFETY: the cores are below the size of the set.
        (0..libc::CPU_SETSIZE as usize).filter(|core| unsafe { libc::CPU_ISSET(*core, &set) }).collect()
    }

    /// Keeps the calling thread on one of the cores.
    pub(in crate::cpu) fn stay_on(cores: &[usize], thread: usize) {
        let Some(core) = thread.checked_rem(cores.len()).map(|at| cores[at]) else { return };
        // SAFETY: the set is plain data, and the core is below its size.
        let set = unsafe {
            let mut set: libc::cpu_set_t = mem::zeroed();
            libc::CPU_SET(core, &mut set);
            set
        };
        allow(&set);
    }

    /// The core that the calling thread runs on.
    pub(in crate::cpu) fn current_core() -> Option<usize> {
        // SAFETY: the call has no arguments.
        usize::try_from(unsafe { libc::sched_getcpu() }).ok()
    }

    /// Moves the calling thread away from a core if it may use another one. It may return later.
    pub(in crate::cpu) fn leave(core: usize) {
        let Some(all) = allowed() else { return };
        let mut others = all;
        // SAFETY: the set is plain data, and the core is below its size.
        let has_others = unsafe {
            libc::CPU_CLR(core, &mut others);
            libc::CPU_COUNT(&others) > 0
        };
        if has_others && allow(&others) {
            allow(&all);
        }
    }

    fn allowed() -> Option<libc::cpu_set_t> {
        // SAFETY: the set is plain data, as large as the call is told.
        unsafe {
            let mut set: libc::cpu_set_t = mem::zeroed();
            (libc::sched_getaffinity(0, size_of_val(&set), &mut set) == 0).then_some(set)
        }
    }

    fn allow(set: &libc::cpu_set_t) -> bool {
        // SAFETY: as above.
        unsafe { libc::sched_setaffinity(0, size_of_val(set), set) == 0 }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    pub(in crate::cpu) fn allowed_cores() -> Vec<usize> {
        Vec::new()
    }

    pub(in crate::cpu) fn stay_on(_: &[usize], _: usize) {}

    pub(in crate::cpu) fn current_core() -> Option<usize> {
        None
    }

    pub(in crate::cpu) fn leave(_: usize) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_leaves_a_core_if_it_may_use_another() {
        let allowed = allowed_cores();
        let Some(core) = current_core() else { return };
        leave(core);
        assert_eq!(allowed_cores(), allowed);
        let pinned = std::thread::spawn(move || {
            stay_on(&[core], 0);
            leave(core);
            (current_core(), allowed_cores())
        });
        assert_eq!(pinned.join().unwrap(), (Some(core), vec![core]));
    }
}
