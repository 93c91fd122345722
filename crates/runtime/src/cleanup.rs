//! Cleanup of temporary files, folders and child processes, which must not outlive this process.
//!
//! All of them are in one registry behind one lock. Creating and removing one holds the lock, and [`end_all`]
//! never releases it: a signal finds each of them not yet created, registered, or gone. Do not nest these
//! calls: the lock is not reentrant.

use std::{
    fs, io,
    mem::ManuallyDrop,
    ops::{Deref, DerefMut},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Output, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

struct Kept {
    paths: Vec<PathBuf>,
    /// Each is the leader of its own process group.
    children: Vec<u32>,
}

static KEPT: Mutex<Kept> = Mutex::new(Kept { paths: Vec::new(), children: Vec::new() });

fn kept() -> MutexGuard<'static, Kept> {
    // Every statement leaves the registry consistent, so a poisoned lock is fine.
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kills every child with its process group, removes every temporary file and folder, and blocks new ones.
/// The process must exit next.
pub fn end_all() {
    let kept = ManuallyDrop::new(kept());
    kept.children.iter().for_each(|&child| kill_group(child));
    kept.paths.iter().for_each(|path| remove(path));
}

/// Runs work that a signal must not interrupt, such as replacing several files.
pub fn uninterrupted<T>(work: impl FnOnce() -> T) -> T {
    let _kept = kept();
    work()
}

/// Removes a file or a folder. Retries, because a child that was just killed may still write into it.
fn remove(path: &Path) {
    for _ in 0..100 {
        let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => thread::sleep(Duration::from_millis(10)),
            _ => return,
        }
    }
}

/// A temporary file or folder, removed with its owner or with the process.
#[derive(Debug)]
pub struct Temporary<T> {
    /// `None` while it is dropped.
    inner: Option<T>,
    path: PathBuf,
}

impl<T: AsRef<Path>> Temporary<T> {
    /// Registers what `make` creates.
    pub fn new(make: impl FnOnce() -> io::Result<T>) -> io::Result<Self> {
        let mut kept = kept();
        let inner = make()?;
        let path = std::path::absolute(inner.as_ref())?;
        kept.paths.push(path.clone());
        Ok(Self { inner: Some(inner), path })
    }

    /// Unregisters it while `finish` makes it permanent.
    pub fn finish<R>(mut self, finish: impl FnOnce(T) -> R) -> R {
        let mut kept = kept();
        kept.paths.retain(|path| *path != self.path);
        finish(self.inner.take().expect("taken only on drop"))
    }
}

impl<T> Drop for Temporary<T> {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.take() {
            let mut kept = kept();
            kept.paths.retain(|path| *path != self.path);
            drop(inner);
        }
    }
}

impl<T> Deref for Temporary<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inner.as_ref().expect("taken only on drop")
    }
}

impl<T> DerefMut for Temporary<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect("taken only on drop")
    }
}

/// A child process in its own process group that ends with this process.
#[derive(Debug)]
pub struct GuardedChild {
    child: Child,
    is_over: bool,
}

impl GuardedChild {
    /// Starts the child. On Linux the kernel kills it if this process dies, or the thread that started it
    /// ends.
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        lead_group(command);
        let mut kept = kept();
        let child = command.spawn()?;
        kept.children.push(child.id());
        Ok(Self { child, is_over: false })
    }

    /// Runs a command to completion without input, and captures its output.
    pub fn output(command: &mut Command) -> io::Result<Output> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut guarded = Self::spawn(command)?;
        let stderr = guarded.child.stderr.take();
        let stderr = thread::spawn(move || read_all(stderr));
        let stdout = read_all(guarded.child.stdout.take())?;
        let stderr = stderr.join().unwrap_or_else(|_| Ok(Vec::new()))?;
        Ok(Output { status: guarded.wait()?, stdout, stderr })
    }

    /// Waits for the child. Polls, so that reaping and unregistering it happen under one lock: its pid may be
    /// reused afterwards.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        loop {
            let mut kept = kept();
            if let Some(status) = self.child.try_wait()? {
                kept.children.retain(|&child| child != self.child.id());
                self.is_over = true;
                return Ok(status);
            }
            drop(kept);
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Kills the child and its process group.
    pub fn kill(&mut self) -> io::Result<()> {
        if self.is_over {
            return Ok(());
        }
        #[cfg(unix)]
        kill_group(self.child.id());
        #[cfg(not(unix))]
        self.child.kill()?;
        self.wait().map(drop)
    }

    /// Takes its stdin, if that is a pipe.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Takes its stdout, if that is a pipe.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }
}

fn read_all(pipe: Option<impl io::Read>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    pipe.map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut bytes))?;
    Ok(bytes)
}

impl Drop for GuardedChild {
    fn drop(&mut self) {
        if !self.is_over {
            // The error that led here is reported elsewhere.
            let _ = self.kill();
        }
    }
}

#[cfg(unix)]
fn lead_group(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    command.process_group(0);
    #[cfg(target_os = "linux")]
    {
        let parent = std::process::id();
        let ends_with_parent = move || {
            // SAFETY: both are system calls without pointer arguments.
            let (set, ppid) =
                unsafe { (libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL), libc::getppid()) };
            match set {
                0 if ppid as u32 == parent => Ok(()),
                // The parent died in between.
                0 => Err(io::Error::from_raw_os_error(libc::ESRCH)),
                _ => Err(io::Error::last_os_error()),
            }
        };
        // SAFETY: between fork and exec it makes two system calls and does not allocate.
        unsafe { command.pre_exec(ends_with_parent) };
    }
}

#[cfg(not(unix))]
fn lead_group(_: &mut Command) {}

#[cfg(unix)]
fn kill_group(leader: u32) {
    // SAFETY: a system call without pointer arguments. The leader was not reaped, so the process group id is
    // still its own.
    unsafe { libc::killpg(leader as libc::pid_t, libc::SIGKILL) };
}

#[cfg(not(unix))]
fn kill_group(_: u32) {}

/// Whether this process was started with a signal ignored, as by `nohup` and for background jobs.
#[cfg(unix)]
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: `sigaction` is plain data, for which zeros are valid.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: sets no action, and writes the current one to a live variable.
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), &mut action) };
    asked == 0 && action.sa_sigaction == libc::SIG_IGN
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_is_off_the_list() {
        let folder = Temporary::new(tempfile::tempdir).unwrap();
        let path = folder.path().to_owned();
        assert!(kept().paths.contains(&path) && path.is_dir());
        drop(folder);
        assert!(!kept().paths.contains(&path) && !path.exists());
        let lasting = Temporary::new(tempfile::tempdir).unwrap().finish(tempfile::TempDir::keep);
        assert!(!kept().paths.contains(&lasting) && lasting.is_dir());
        fs::remove_dir(lasting).unwrap();
    }

    #[test]
    fn a_child_ends_with_its_owner_and_all_that_it_started() {
        let mut shell = Command::new("sh");
        let mut child =
            GuardedChild::spawn(shell.args(["-c", "sleep 600 & echo $!; wait"]).stdout(Stdio::piped()))
                .unwrap();
        let mut line = String::new();
        let stdout = child.take_stdout().unwrap();
        io::BufRead::read_line(&mut io::BufReader::new(stdout), &mut line).unwrap();
        let leader = child.child.id();
        assert!(kept().children.contains(&leader));
        drop(child);
        assert!(!kept().children.contains(&leader));
        let running = || fs::read_to_string(format!("/proc/{}/stat", line.trim()));
        let is_over = || running().map_or(true, |stat| stat.contains(") Z "));
        assert!((0..200).any(|_| is_over() || {
            thread::sleep(Duration::from_millis(10));
            false
        }));
    }

    #[test]
    fn output_is_taken_from_both_pipes() {
        let mut shell = Command::new("sh");
        let output = GuardedChild::output(shell.args(["-c", "cat; echo out; echo err >&2; exit 3"])).unwrap();
        assert_eq!(
            (output.status.code(), &output.stdout[..], &output.stderr[..]),
            (Some(3), &b"out\n"[..], &b"err\n"[..])
        );
    }
}
