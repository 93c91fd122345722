//! The parent process: starts a child, sends the request, collects the replies, and explains how the child
//! ended.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use super::{
    CompileRequest, Compiled, DumpFlags, Module, Rejection, Reply, Target, environment::SOURCE_ANNOTATIONS,
};
use crate::cleanup::GuardedChild;

/// Timeout without a reply: many times what the largest kernels take.
const TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// How much of a dead child's stderr to quote.
const LAST_WORDS: u64 = 2000;

/// A compilation that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The compiler rejects the module.
    #[error("{module}: {rejection}")]
    Rejected {
        /// Which module.
        module: String,
        /// The reason.
        rejection: Rejection,
    },
    /// The compiler could not be started for this target.
    #[error("{0}")]
    NotStarted(String),
    /// The compiler's flags cannot name the folder for its dumps.
    #[error(
        "the TPU compiler cannot write to {path:?}, which contains a space: set TMPDIR to another folder"
    )]
    SpaceInPath {
        /// The folder.
        path: PathBuf,
    },
    /// The compiler's process died.
    #[error("the compiler died of {cause} while compiling {module}{words}", words = quoted(.stderr_tail))]
    Crashed {
        /// Which module.
        module: String,
        /// A signal or an exit code.
        cause: String,
        /// The end of its stderr.
        stderr_tail: String,
    },
    /// The compiler did not reply in time and was killed.
    #[error(
        "the compiler did not reply within {} seconds while compiling {module}, and was killed{words}",
        .waited.as_secs(), words = quoted(.stderr_tail)
    )]
    Hung {
        /// Which module.
        module: String,
        /// The timeout.
        waited: Duration,
        /// The end of its stderr.
        stderr_tail: String,
    },
    /// The child process could not be run.
    #[error("cannot run the compiling process {program:?}: {error}")]
    Process {
        /// The program.
        program: OsString,
        /// The operating system's error.
        error: io::Error,
    },
}

impl CompileError {
    /// Whether the compiler died because it cannot annotate listings with source lines.
    pub fn lacks_source_annotations(&self) -> bool {
        let unknown = format!("Unknown command line flag '{SOURCE_ANNOTATIONS}'");
        matches!(self, Self::Crashed { stderr_tail, .. } if stderr_tail.contains(&unknown))
    }
}

fn quoted(words: &str) -> String {
    if words.is_empty() { "; stderr is empty".to_owned() } else { format!("; stderr ends with:\n{words}") }
}

/// A compiler: a plugin, and the command that runs [`super::serve`] on its stdin and stdout.
#[derive(Clone, Debug)]
pub struct Compiler {
    /// The plugin, for example `libtpu.so`.
    pub plugin: PathBuf,
    /// The child's program and arguments.
    pub child: Vec<OsString>,
}

/// The output of a child.
struct ChildOutput {
    replies: Vec<Reply>,
    end: End,
    stderr_tail: String,
}

/// How a child ended.
#[derive(Clone, Copy)]
enum End {
    /// By itself.
    Exited(ExitStatus),
    /// Killed after this timeout.
    Hung(Duration),
}

impl Compiler {
    /// Compiles one module.
    pub fn compile(
        &self,
        target: &Target,
        module: &Module,
        dump: &DumpFlags,
    ) -> Result<Compiled, CompileError> {
        self.compile_within(TIMEOUT, target, module, dump)
    }

    fn compile_within(
        &self,
        timeout: Duration,
        target: &Target,
        module: &Module,
        dump: &DumpFlags,
    ) -> Result<Compiled, CompileError> {
        let answers = self.run(timeout, target, std::slice::from_ref(module), dump)?;
        let (mut replies, crash) = answers.split();
        match replies.pop() {
            Some(reply) => outcome(reply, &module.name),
            None => Err(crash(&module.name)),
        }
    }

    /// Compiles many modules, with one outcome each. A crash fails the module being compiled; a new child
    /// continues with the rest.
    pub fn compile_all(
        &self,
        target: &Target,
        modules: &[Module],
    ) -> Result<Vec<Result<Compiled, CompileError>>, CompileError> {
        let mut outcomes = Vec::with_capacity(modules.len());
        while outcomes.len() < modules.len() {
            let rest = &modules[outcomes.len()..];
            let (replies, crash) = self.run(TIMEOUT, target, rest, &DumpFlags::Nothing)?.split();
            let answered = replies.len();
            let named = replies.into_iter().zip(rest);
            outcomes.extend(named.map(|(reply, module)| outcome(reply, &module.name)));
            if let Some(unanswered) = rest.get(answered) {
                outcomes.push(Err(crash(&unanswered.name)));
            }
        }
        Ok(outcomes)
    }

    pub(super) fn process_error(&self, error: io::Error) -> CompileError {
        let program = self.child.first().cloned().unwrap_or_default();
        CompileError::Process { program, error }
    }

    /// Runs a child to its end.
    fn run(
        &self,
        timeout: Duration,
        target: &Target,
        modules: &[Module],
        dump: &DumpFlags,
    ) -> Result<ChildOutput, CompileError> {
        // Flags end at spaces.
        let folder = dump.folder().filter(|path| path.to_string_lossy().contains(char::is_whitespace));
        if let Some(path) = folder {
            return Err(CompileError::SpaceInPath { path: path.to_owned() });
        }
        let (program, arguments) = self.child.split_first().expect("the child has a program");
        let process_error = |error| self.process_error(error);
        let request =
            CompileRequest { plugin: self.plugin.clone(), target: target.clone(), modules: modules.to_vec() };
        let request = serde_json::to_vec(&request).map_err(|error| process_error(error.into()))?;
        // A file, not a pipe: it need not be read while the child runs.
        let mut log = tempfile::tempfile().map_err(process_error)?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(log.try_clone().map_err(process_error)?);
        dump.apply(&mut command);
        let child = GuardedChild::spawn(&mut command).map_err(process_error)?;
        let (output, end) = exchange(child, &request, timeout).map_err(process_error)?;
        let stderr_tail = tail(&mut log).map_err(process_error)?;
        let mut replies = Vec::new();
        for line in output {
            // Lines that are not replies were printed by the compiler.
            match serde_json::from_str(&line) {
                Ok(Reply::NotStarted(reason)) => return Err(CompileError::NotStarted(reason)),
                Ok(reply) => replies.push(reply),
                Err(_) => {}
            }
        }
        Ok(ChildOutput { replies, end, stderr_tail })
    }
}

/// Sends the request and reads the child's lines.
fn exchange(mut child: GuardedChild, request: &[u8], timeout: Duration) -> io::Result<(Vec<String>, End)> {
    let mut stdin = child.take_stdin().expect("stdin is piped");
    // If the child died early, its exit status tells more than the broken pipe.
    let _ = stdin.write_all(request);
    drop(stdin);
    let stdout = child.take_stdout().expect("stdout is piped");
    let (sender, receiver) = mpsc::channel();
    // In a thread, because a blocking read has no timeout. It ends when the pipe closes.
    thread::spawn(move || {
        let lines = io::BufReader::new(stdout).split(b'\n').map_while(Result::ok);
        lines.map(|line| String::from_utf8_lossy(&line).into_owned()).all(|line| sender.send(line).is_ok())
    });
    let mut lines = Vec::new();
    loop {
        match receiver.recv_timeout(timeout) {
            Ok(line) => lines.push(line),
            Err(RecvTimeoutError::Disconnected) => return Ok((lines, End::Exited(child.wait()?))),
            Err(RecvTimeoutError::Timeout) => {
                child.kill()?;
                return Ok((lines, End::Hung(timeout)));
            }
        }
    }
}

fn tail(log: &mut File) -> io::Result<String> {
    let length = log.seek(SeekFrom::End(0))?;
    log.seek(SeekFrom::Start(length.saturating_sub(LAST_WORDS)))?;
    let mut bytes = Vec::new();
    log.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}

impl ChildOutput {
    /// Returns the replies, and an explanation for missing ones.
    fn split(self) -> (Vec<Reply>, impl Fn(&str) -> CompileError) {
        let (end, stderr_tail) = (self.end, self.stderr_tail);
        let crash = move |module: &str| {
            let (module, stderr_tail) = (module.to_owned(), stderr_tail.clone());
            match end {
                End::Exited(status) => CompileError::Crashed { module, cause: cause(status), stderr_tail },
                End::Hung(waited) => CompileError::Hung { module, waited, stderr_tail },
            }
        };
        (self.replies, crash)
    }
}

fn outcome(reply: Reply, module: &str) -> Result<Compiled, CompileError> {
    match reply {
        Reply::Compiled(compiled) => Ok(*compiled),
        Reply::Rejected(rejection) => Err(CompileError::Rejected { module: module.to_owned(), rejection }),
        Reply::NotStarted(reason) => Err(CompileError::NotStarted(reason)),
    }
}

#[cfg(unix)]
fn cause(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("signal {signal}{}", signal_name(signal)),
        (None, Some(code)) => format!("exit code {code}"),
        (None, None) => "an unknown cause".to_owned(),
    }
}

#[cfg(not(unix))]
fn cause(status: ExitStatus) -> String {
    status.to_string()
}

/// Names of signals.
#[cfg(unix)]
fn signal_name(signal: i32) -> &'static str {
    match signal {
        4 => " (illegal instruction)",
        6 => " (abort)",
        7 => " (bus error)",
        8 => " (arithmetic error)",
        9 => " (killed, perhaps for want of memory)",
        11 => " (segmentation fault)",
        _ => "",
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// A compiler whose child is a shell script.
    fn compiler(script: &str) -> Compiler {
        let script = format!("cat > /dev/null; {script}");
        Compiler { plugin: "unused.so".into(), child: vec!["sh".into(), "-c".into(), script.into()] }
    }

    fn compile(script: &str) -> CompileError {
        let target = Target::named("tpu7x:2x2x1");
        compiler(script).compile(&target, &Module::new("dma", ""), &DumpFlags::Nothing).unwrap_err()
    }

    #[test]
    fn a_crash_quotes_stderr() {
        assert_eq!(
            compile("echo 'Check failed: x > 0' >&2; kill -ABRT $$").to_string(),
            "the compiler died of signal 6 (abort) while compiling dma; stderr ends with:\n\
             Check failed: x > 0"
        );
        assert_eq!(
            compile("exit 3").to_string(),
            "the compiler died of exit code 3 while compiling dma; stderr is empty"
        );
    }

    #[test]
    fn an_answer_counts_even_if_the_child_dies_afterwards() {
        let error = compile(r#"echo noise; echo '{"Rejected":{"StableHlo":"-:1:1: error"}}'; kill -ABRT $$"#);
        assert_eq!(error.to_string(), "dma: the module is not valid StableHLO: -:1:1: error");
    }

    #[test]
    fn a_child_that_hangs_is_ended() {
        let (target, module) = (Target::named("t"), Module::new("dma", ""));
        let timeout = Duration::from_secs(1);
        let compile = |script: &str| {
            let outcome = compiler(script).compile_within(timeout, &target, &module, &DumpFlags::Nothing);
            outcome.unwrap_err().to_string()
        };
        assert_eq!(
            compile("echo 'asking somebody' >&2; exec sleep 600"),
            "the compiler did not reply within 1 seconds while compiling dma, and was killed; \
             stderr ends with:\nasking somebody"
        );
        // A reply counts even if the child hangs afterwards.
        let answered = compile(r#"echo '{"Rejected":{"Other":"no"}}'; exec sleep 600"#);
        assert!(answered.starts_with("dma: ") && !answered.contains("no answer"), "{answered}");
    }

    #[test]
    fn a_crash_costs_one_module() {
        let compiler = compiler(r#"echo '{"Rejected":{"Other":"no"}}'; exit 1"#);
        let modules = ["a", "b", "c", "d"].map(|name| Module::new(name, ""));
        let outcomes = compiler.compile_all(&Target::named("t"), &modules).unwrap();
        let crashed = |outcome: &Result<_, _>| matches!(outcome, Err(CompileError::Crashed { .. }));
        assert_eq!(outcomes.iter().map(crashed).collect::<Vec<_>>(), [false, true, false, true]);
    }

    #[test]
    fn a_folder_that_flags_cannot_name_is_refused() {
        let (target, module) = (Target::named("t"), Module::new("dma", ""));
        for flags in [DumpFlags::Listings, DumpFlags::AnnotatedListings, DumpFlags::StaticProfile] {
            let error = compiler("exit 0").compile(&target, &module, &flags("/tmp/a b".into())).unwrap_err();
            assert_eq!(
                error.to_string(),
                "the TPU compiler cannot write to \"/tmp/a b\", which contains a space: set TMPDIR to another \
                 folder"
            );
        }
    }

    #[test]
    fn a_compiler_that_does_not_start_fails_once() {
        let compiler = compiler(r#"echo '{"NotStarted":"cannot load unused.so"}'"#);
        let modules = ["a", "b"].map(|name| Module::new(name, ""));
        let error = compiler.compile_all(&Target::named("t"), &modules).unwrap_err();
        assert_eq!(error.to_string(), "cannot load unused.so");
        let absent = Compiler { plugin: "unused.so".into(), child: vec!["/no/such/program".into()] };
        let error = absent.compile(&Target::named("t"), &modules[0], &DumpFlags::Nothing).unwrap_err();
        assert!(error.to_string().starts_with("cannot run the compiling process \"/no/such/program\": "));
    }
}
