//! The environment of the child process, from which the TPU compiler reads most of its flags.

use std::path::{Path, PathBuf};

/// Variables for starting libtpu on a machine without a TPU. Without the first it queries a metadata service
/// for minutes; without the last it does not start beside another process.
const QUIET_START: [(&str, &str); 5] = [
    ("TPU_SKIP_MDS_QUERY", "1"),
    ("TPU_WORKER_HOSTNAMES", "localhost"),
    ("TPU_ACCELERATOR_TYPE", "tpu7x-8"),
    ("TPU_MIN_LOG_LEVEL", "3"),
    ("ALLOW_MULTIPLE_LIBTPU_LOAD", "1"),
];

/// Variables with flags for other programs, which could abort the compiler.
const CLEARED: [&str; 2] = ["XLA_FLAGS", "LIBTPU_INIT_ARGS"];

/// Passes to dump: the scheduled LLO before and after the last pass, utilization, and memory space
/// assignment.
const LLO_PASSES: &str =
    "final_bundles|packed-bundles-post-ra|final_hlo-static|hlo-static-bundle-profile|memory-space";

/// The flag that annotates LLO instructions with source lines.
pub(super) const SOURCE_ANNOTATIONS: &str = "xla_mosaic_enable_llo_source_annotations";

/// Which files the compiler dumps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DumpFlags {
    /// None.
    Nothing,
    /// Mosaic after every stage, LLO listings, utilization and schedule analysis, into this folder.
    Listings(PathBuf),
    /// The same, with the source line of each LLO instruction in a comment. The code is the same. Compilers
    /// that do not know the flag die of it.
    AnnotatedListings(PathBuf),
    /// The compiler's cycle estimate, into this folder. On some chips the process aborts after writing it.
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
            Self::AnnotatedListings(folder) => {
                let mut flags = Self::Listings(folder.clone()).flags();
                flags.push(format!("--{SOURCE_ANNOTATIONS}=true"));
                flags
            }
            Self::StaticProfile(folder) => {
                vec![format!("--xla_jf_dump_static_llo_profile_to={}", folder.display())]
            }
        }
    }

    /// The folder that the compiler writes to.
    pub(super) fn folder(&self) -> Option<&Path> {
        match self {
            Self::Nothing => None,
            Self::Listings(folder) | Self::AnnotatedListings(folder) | Self::StaticProfile(folder) => {
                Some(folder)
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
