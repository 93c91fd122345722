//! Classification of the compiler's errors.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::pjrt::{Error, ErrorCode};

/// Why the compiler rejects a target or a module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// The compiler does not know the topology.
    #[error("unknown topology '{0}': check the name, or install a newer libtpu")]
    UnknownChip(String),
    /// The topology has an invalid shape.
    #[error("invalid topology '{topology}': {detail}")]
    Topology {
        /// Its name.
        topology: String,
        /// The compiler's message.
        detail: String,
    },
    /// The module is not valid StableHLO.
    #[error("the module is not valid StableHLO: {0}")]
    StableHlo(String),
    /// The kernel is not valid Mosaic.
    #[error("the kernel is not a valid Mosaic module: {0}")]
    MosaicInvalid(String),
    /// The kernel needs a feature that the chip lacks.
    #[error("the chip does not support a feature of the kernel: {0}")]
    Unsupported(String),
    /// The kernel is valid, but the compiler cannot lower it.
    #[error("the compiler cannot lower the kernel: {0}")]
    MosaicLowering(String),
    /// The kernel's buffers do not fit.
    #[error("the kernel exceeds the chip's memory: {0}")]
    OutOfMemory(String),
    /// The result could not be written.
    #[error("cannot write the executable to {path}: {reason}")]
    NotStored {
        /// The path.
        path: PathBuf,
        /// The operating system's error.
        reason: String,
    },
    /// Any other error, in the compiler's words.
    #[error("the compiler rejects the module: {0}")]
    Other(String),
}

impl Rejection {
    /// Explains a topology that could not be created.
    pub fn of_topology(topology: &str, error: Error) -> Self {
        let message = error.to_string();
        if message.contains("Invalid TPU external name") {
            return Self::UnknownChip(topology.to_owned());
        }
        Self::Topology { topology: topology.to_owned(), detail: essence(&message) }
    }

    /// Explains a module that could not be compiled.
    pub fn of_module(error: Error) -> Self {
        let Error::Plugin { code, message } = error else {
            return Self::Other(error.to_string());
        };
        let first = essence(&message);
        if let Some((_, detail)) = first.split_once("Failed to parse the Mosaic module: ") {
            return Self::MosaicInvalid(detail.to_owned());
        }
        if code == ErrorCode::ResourceExhausted || message.contains("would exceed memory") {
            return Self::OutOfMemory(excess(&message).unwrap_or(first));
        }
        if let Some((_, detail)) = first.split_once("Mosaic failed to compile TPU kernel: ") {
            let at_line = |detail: &str| match source_line(&message) {
                Some(line) => format!("{line}: {detail}"),
                None => detail.to_owned(),
            };
            return match detail.strip_prefix("E2001: ") {
                Some(detail) => Self::Unsupported(at_line(detail)),
                None => Self::MosaicLowering(at_line(detail)),
            };
        }
        if first.contains(": error: ") {
            return Self::StableHlo(first);
        }
        Self::Other(first)
    }
}

/// The first informative line.
fn essence(message: &str) -> String {
    let line = message.lines().map(str::trim).find(|line| !line.is_empty());
    line.unwrap_or("no reason given").to_owned()
}

/// The innermost source line of a message: `kernel.py:30` of `at location: loc("swap:"(callsite("k"
/// ("kernel.py":30:8 to :31) at ...)))`.
fn source_line(message: &str) -> Option<String> {
    let (_, location) = message.split_once("at location: loc(")?;
    let location = location.lines().next()?;
    location.match_indices("\":").find_map(|(at, mark)| {
        let (_, file) = location.get(..at)?.rsplit_once('"')?;
        let number = location.get(at + mark.len()..)?.split(':').next()?;
        let line: u32 = number.parse().ok()?;
        Some(format!("{file}:{line}"))
    })
}

/// The sentence about the exceeded memory.
fn excess(message: &str) -> Option<String> {
    let sentence = message.lines().flat_map(|line| line.split(". "));
    let mut telling = sentence.filter(|sentence| sentence.contains("exceed"));
    telling.next().map(|sentence| sentence.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explain(code: ErrorCode, message: &str) -> String {
        let message = message.to_owned();
        Rejection::of_module(Error::Plugin { code, message }).to_string()
    }

    // The messages below are what libtpu 0.0.42.1 returns.

    #[test]
    fn topologies() {
        let explain = |name: &str, message: &str| {
            let (code, message) = (ErrorCode::InvalidArgument, message.to_owned());
            Rejection::of_topology(name, Error::Plugin { code, message }).to_string()
        };
        assert_eq!(
            explain("tpu9x:2x2x1", "Invalid TPU external name: tpu9x"),
            "unknown topology 'tpu9x:2x2x1': check the name, or install a newer libtpu"
        );
        assert_eq!(
            explain("v5e:1x1", "Topology layout \"v5e:1x1\" is not divisible by the bounds \"2x2x1\""),
            "invalid topology 'v5e:1x1': Topology layout \"v5e:1x1\" is not divisible by the bounds \
             \"2x2x1\""
        );
    }

    #[test]
    fn text_that_cannot_be_read() {
        let stablehlo = "-:3:10: error: custom op 'stablehlo.custm_call' is unknown\n<unknown>:0: error: \
                         Failed to parse using StableHLO v1.17.0, >12w old unsupported plugin\n";
        assert_eq!(
            explain(ErrorCode::Unknown, stablehlo),
            "the module is not valid StableHLO: -:3:10: error: custom op 'stablehlo.custm_call' is unknown"
        );
        let mosaic = "Failed to parse the Mosaic module: -:5:10: error: custom op 'arith.addq' is unknown\n";
        assert_eq!(
            explain(ErrorCode::InvalidArgument, mosaic),
            "the kernel is not a valid Mosaic module: -:5:10: error: custom op 'arith.addq' is unknown"
        );
    }

    #[test]
    fn kernels_that_cannot_be_translated() {
        let unsupported = "Mosaic failed to compile TPU kernel: E2001: CompileTimeMosaicUnsupportedRhsType: \
                           Unsupported matmul RHS type on target: vector<128x128xf8E4M3FN>\nSee the \
                           web page\n";
        assert_eq!(
            explain(ErrorCode::Internal, unsupported),
            "the chip does not support a feature of the kernel: CompileTimeMosaicUnsupportedRhsType: \
             Unsupported matmul RHS type on target: vector<128x128xf8E4M3FN>"
        );
        let lowering =
            "Mosaic failed to compile TPU kernel: failed to legalize operation 'tpu.matmul'\n\nat ...";
        assert_eq!(
            explain(ErrorCode::Internal, lowering),
            "the compiler cannot lower the kernel: failed to legalize operation 'tpu.matmul'"
        );
    }

    #[test]
    fn a_kernel_that_cannot_be_lowered_names_its_python_line() {
        let alignment = "Mosaic failed to compile TPU kernel: E2003: cannot statically prove that index in \
                         dimension 0 is a multiple of 8\n\nat location: loc(\"swap:\"(\"swap/swap\"(callsite(\
                         \"oobw.<locals>.k\"(\"src/suite4.py\":30:8 to :31) at \"f\"(\"src/main.py\":9:1)))))\n";
        assert_eq!(
            explain(ErrorCode::Internal, alignment),
            "the compiler cannot lower the kernel: src/suite4.py:30: E2003: cannot statically prove that index \
             in dimension 0 is a multiple of 8"
        );
    }

    #[test]
    fn memory_that_runs_out() {
        let scoped = "E1001: CompileTimeScopedVmemOom:\nRan out of memory in memory space vmem while allocating \
                      on stack for %kern.2 = f32[256,256]. Scoped allocation with size 49.02M and limit 32.00M \
                      exceeded scoped vmem limit by 17.02M. It should not be possible to run out of scoped \
                      vmem - ";
        assert_eq!(
            explain(ErrorCode::ResourceExhausted, scoped),
            "the kernel exceeds the chip's memory: Scoped allocation with size 49.02M and limit 32.00M \
             exceeded scoped vmem limit by 17.02M"
        );
        let physical = "Allocation (size=90000000) would exceed memory (size=67108864)";
        assert_eq!(
            explain(ErrorCode::Internal, physical),
            "the kernel exceeds the chip's memory: Allocation (size=90000000) would exceed memory \
             (size=67108864)"
        );
    }
}
