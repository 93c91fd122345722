//! `octile tools` as text.

use std::fmt::Write;

use super::{emit, heading, shown};
use crate::{
    command::tools::ToolReport,
    tools::{FindError, InstalledTool},
};

/// Prints the location of every tool.
pub fn report(tools: &[ToolReport]) {
    emit(&text(tools));
}

/// Prints what was installed.
pub fn installed(tools: &[InstalledTool]) {
    let mut text = String::new();
    for InstalledTool { tool, version, path, fetched } in tools {
        let what = if *fetched { "installed" } else { "already installed:" };
        let _ = writeln!(text, "{what} {} {version}, {}", tool.name, shown(path));
    }
    emit(&text);
}

fn text(tools: &[ToolReport]) -> String {
    let mut text = heading("Tools");
    for ToolReport { tool, found } in tools {
        let _ = match found {
            Ok(found) => {
                let version = found.version.map_or_else(|| "(unknown version)".to_owned(), |v| v.to_string());
                writeln!(
                    text,
                    "{:<9} {version}, {}: {}\n          {}",
                    tool.name,
                    found.origin,
                    tool.purpose,
                    shown(&found.path)
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
    use crate::tools::{FoundTool, LIBTPU, PTXAS, ToolOrigin, ToolVersion};

    #[test]
    fn found_and_missing() {
        let found = FoundTool {
            path: "/cache/octile/tools/libtpu-0.0.42.1/libtpu/libtpu.so".into(),
            version: Some(ToolVersion([0, 0, 42, 1])),
            origin: ToolOrigin::Installed,
        };
        let missing = FindError::Missing { tool: "ptxas", group: "gpu", variable: "OCTILE_PTXAS" };
        insta::assert_snapshot!(text(&[
            ToolReport { tool: &LIBTPU, found: Ok(found) },
            ToolReport { tool: &PTXAS, found: Err(missing) },
        ]));
    }
}
