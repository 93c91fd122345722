//! The environment of a compiling child: the TPU compiler takes most of its settings from there.

use std::path::PathBuf;

/// Variables that make the TPU library start at once and in silence on a machine without a TPU. Without the first
/// it asks a metadata service for minutes; without the last it refuses to start beside another process.
const QUIET_START: [(&str, &str); 5] = [
    ("TPU_SKIP_MDS_QUERY", "1"),
    ("TPU_WORKER_HOSTNAMES", "localhost"),
    ("TPU_ACCELERATOR_TYPE", "tpu7x-8"),
    ("TPU_MIN_LOG_LEVEL", "3"),
    ("ALLOW_MULTIPLE_LIBTPU_LOAD", "1"),
];

/// Variables whose flags, meant for some other program, could end the compiler.
const CLEARED: [&str; 2] = ["XLA_FLAGS", "LIBTPU_INIT_ARGS"];

/// Dump passes worth their bytes: the scheduled listings before and after the last pass, utilization, and the
/// assignment of memory spaces.
const LLO_PASSES: &str =
    "final_bundles|packed-bundles-post-ra|final_hlo-static|hlo-static-bundle-profile|memory-space";

/// Which files the compiler leaves behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DumpFlags {
    /// None.
    Nothing,
    /// Mosaic after every stage, LLO listings, utilization and schedule analysis, into this folder.
    Listings(PathBuf),
    /// The compiler's estimate of the cycles, into this folder. On some chips the process aborts once it is
    /// written.
    StaticProfile(PathBuf),
}

impl DumpFlags {
    /// The compiler flags, as `LIBTPU_INIT_ARGS` takes them.
    pub fn flags(&self) -> Vec<String> {
        match self {
            Self::Nothing => Vec::new(),
            Self::Listings(folder) => {
                let folder = folder.display();
                vec![
                    format!("--xla_mosaic_dump_to={folder}"),
                    format!("--xla_jf_dump_to={folder}"),
                    "--xla_jf_dump_use_subdirectories=true".to_owned(),
                    "--xla_jf_dump_category_filter=msa,codegen,utilization,misc,program".to_owned(),
                    format!("--xla_jf_dump_llo_pass_label_regex={LLO_PASSES}"),
                ]
            }
            Self::StaticProfile(folder) => {
                vec![format!("--xla_jf_dump_static_llo_profile_to={}", folder.display())]
            }
        }
    }

    /// The variables to set in a child, and those to remove.
    pub(super) fn apply(&self, command: &mut std::process::Command) {
        for name in CLEARED {
            command.env_remove(name);
        }
        command.envs(QUIET_START);
        let flags = self.flags();
        if !flags.is_empty() {
            command.env("LIBTPU_INIT_ARGS", flags.join(" "));
        }
    }
}
