//! The compiler's static cycle estimate.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Serialize;

use super::{CompileError, Compiled, Compiler, DumpFlags, Module, Target};
use crate::{cleanup::Temporary, pjrt::MemoryStats};

/// Suffix of the name of a profiled operation.
const FILE_SUFFIX: &str = "_static_llo_profile.textproto";

/// Cycles estimated by the compiler, DMAs included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StaticProfile {
    /// Per operation of the module; operations without an estimate are absent.
    pub estimated_cycles: BTreeMap<String, u64>,
    /// How the profiler died, why it refused the module or why it was not run, if that is so.
    pub died_of: Option<String>,
}

/// Name prefix of temporary folders for compiler dumps; old ones were left behind by a killed process.
pub const TEMPORARY_PREFIX: &str = "octile-dump-";

/// Most bytes of operands, results and temporaries of a module that is profiled: libtpu's profiler runs it on
/// the host, and takes twice as much memory.
const MAX_PROFILED_BYTES: i64 = 1 << 30;

/// Compiles a module that was compiled before again, with static profiling, unless its operands are large.
///
/// In a process of its own, because the profiler aborts on some kernels with explicit DMAs. What it wrote
/// before is kept.
pub fn static_profile(
    compiler: &Compiler,
    target: &Target,
    module: &Module,
    compiled: &Compiled,
) -> Result<StaticProfile, CompileError> {
    let MemoryStats { argument, output, temp, .. } = compiled.memory;
    let bytes = argument.saturating_add(output).saturating_add(temp);
    if bytes > MAX_PROFILED_BYTES {
        let reason = format!(
            "not run: the profiler would allocate the module's {bytes} bytes of HBM twice, and is run for up \
             to {MAX_PROFILED_BYTES}"
        );
        return Ok(StaticProfile { died_of: Some(reason), ..StaticProfile::default() });
    }
    let folder = Temporary::new(|| tempfile::Builder::new().prefix(TEMPORARY_PREFIX).tempdir());
    let folder = folder.map_err(|error| compiler.process_error(error))?;
    let dump = DumpFlags::StaticProfile(folder.path().to_owned());
    let died_of = match compiler.compile(target, module, &dump) {
        Ok(_) => None,
        Err(CompileError::Crashed { cause, .. }) => Some(cause),
        Err(CompileError::Hung { .. }) => Some("a time limit".to_owned()),
        // The profiler needs VMEM of its own beside what the kernel requests, so it may refuse a kernel that
        // compiles without it.
        Err(CompileError::Rejected { rejection, .. }) => Some(rejection.to_string()),
        Err(error) => return Err(error),
    };
    let estimated_cycles = read_profiles(folder.path()).map_err(|error| compiler.process_error(error))?;
    Ok(StaticProfile { estimated_cycles, died_of })
}

fn read_profiles(folder: &Path) -> std::io::Result<BTreeMap<String, u64>> {
    let mut cycles = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(operation) = name.strip_suffix(FILE_SUFFIX) else {
            continue;
        };
        if let Some(estimate) = estimated_cycles(&fs::read_to_string(entry.path())?) {
            cycles.insert(operation.to_owned(), estimate);
        }
    }
    Ok(cycles)
}

/// The first estimate in a profile; a truncated profile has none.
fn estimated_cycles(profile: &str) -> Option<u64> {
    let mut fields = profile.lines().filter_map(|line| line.trim().strip_prefix("estimated_cycles: "));
    fields.next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_named_after_their_operations() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("copy.1_static_llo_profile.textproto", "profile {\n  estimated_cycles: 620\n}\n");
        write("kern_static_llo_profile.textproto", "profile {\n  esti");
        write("unrelated.txt", "estimated_cycles: 1\n");
        let cycles = read_profiles(folder.path()).unwrap();
        assert_eq!(cycles, BTreeMap::from([("copy.1".to_owned(), 620)]));
    }
}
