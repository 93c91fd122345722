//! `octile tools` as text.

use std::fmt::Write;

use super::{emit, heading};
use crate::{
    command::tools::ToolReport,
    tools::{FindError, Installed},
};

/// Prints where every tool is.
pub fn report(tools: &[ToolReport]) {
    emit(&text(tools));
}

/// Prints what was fetched.
pub fn installed(tools: &[Installed]) {
    let mut text = String::new();
    for Installed { tool, version, path, fetched } in tools {
        let what = if *fetched { "installed" } else { "already there:" };
        let _ = writeln!(text, "{what} {} {version}, {}", tool.name, path.display());
    }
    emit(&text);
}

fn text(tools: &[ToolReport]) -> String {
    let mut text = heading("Tools");
    for ToolReport { tool, found } in tools {
        let _ = match found {
            Ok(found) => {
                let version =
                    found.version.map_or_else(|| "of unknown version".to_owned(), |v| v.to_string());
                writeln!(
                    text,
                    "{:<9} {version}, {}: {}\n          {}",
                    tool.name,
                    found.origin,
                    tool.purpose,
                    found.path.display()
                )
            }
            Err(error) => {
                let state = if matches!(error, FindError::Missing { .. }) { "missing" } else { "unusable" };
                writeln!(text, "{:<9} {state}, {}\n          {error}", tool.name, tool.purpose)
            }
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::{Found, LIBTPU, Origin, PTXAS, Version};

    #[test]
    fn found_and_missing() {
        let found = Found {
            path: "/cache/octile/tools/libtpu-0.0.42.1/libtpu/libtpu.so".into(),
            version: Some(Version([0, 0, 42, 1])),
            origin: Origin::Installed,
        };
        let missing = FindError::Missing { tool: "ptxas", group: "gpu", variable: "OCTILE_PTXAS" };
        insta::assert_snapshot!(text(&[
            ToolReport { tool: &LIBTPU, found: Ok(found) },
            ToolReport { tool: &PTXAS, found: Err(missing) },
        ]));
    }
}
