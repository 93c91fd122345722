//! What a test needs of the machine beyond the source tree.

use std::{fmt, io::Write};

/// Environment variable that lists requirements: a test that lacks one of them fails instead of being
/// reported as not run. Example: `OCTILE_REQUIRE=gpu,browser`.
pub const VARIABLE: &str = "OCTILE_REQUIRE";

/// What a test needs of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requirement {
    /// A GPU that can run the kernels.
    Gpu,
    /// Chromium.
    Browser,
    /// Permission to mount a file system in a namespace.
    Mount,
    /// A file system with sparse files of a terabyte.
    SparseFiles,
    /// A CPU whose vector ISA beats the portable kernels.
    VectorIsa,
    /// Permission to give a file to another user.
    Chown,
}

impl Requirement {
    const ALL: [Self; 6] =
        [Self::Gpu, Self::Browser, Self::Mount, Self::SparseFiles, Self::VectorIsa, Self::Chown];

    /// Reports that `test` is not run because the requirement is absent.
    ///
    /// # Panics
    /// When [`VARIABLE`] lists the requirement, or something unknown.
    pub fn report_absent(self, test: &str, reason: impl fmt::Display) {
        let list = std::env::var(VARIABLE).unwrap_or_default();
        let required = parse(&list).unwrap_or_else(|error| panic!("{error}"));
        assert!(!required.contains(&self), "{test} needs {self}, which {VARIABLE} lists: {reason}");
        // Written directly, because the test runner captures what passing tests print.
        let _ = writeln!(std::io::stderr(), "NOT RUN: {test} needs {self}: {reason}");
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gpu => "gpu",
            Self::Browser => "browser",
            Self::Mount => "mount",
            Self::SparseFiles => "sparse-files",
            Self::VectorIsa => "vector-isa",
            Self::Chown => "chown",
        })
    }
}

fn parse(list: &str) -> Result<Vec<Requirement>, String> {
    let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
    let requirement = |name: &str| {
        let known = Requirement::ALL.into_iter().find(|requirement| requirement.to_string() == name);
        known.ok_or_else(|| {
            let all = Requirement::ALL.map(|requirement| requirement.to_string()).join(", ");
            format!("{VARIABLE} lists '{name}', expected {all}")
        })
    };
    names.map(requirement).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_requirements() {
        assert_eq!(parse(""), Ok(vec![]));
        assert_eq!(parse("gpu, browser,"), Ok(vec![Requirement::Gpu, Requirement::Browser]));
        let error = parse("gpu,tpu").unwrap_err();
        let all = "gpu, browser, mount, sparse-files, vector-isa, chown";
        assert_eq!(error, format!("OCTILE_REQUIRE lists 'tpu', expected {all}"));
    }
}
