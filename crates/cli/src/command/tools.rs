//! `octile tools`: locates and installs the vendors' compilers.

use anyhow::{Context, Result};

use crate::{
    args::ToolGroup,
    tools::{self, FindError, FoundTool, InstalledTool, Tool, ToolPaths},
};

/// A tool and its location.
#[derive(Debug)]
pub struct ToolReport {
    /// The tool.
    pub tool: &'static Tool,
    /// Its location, or why it cannot be used.
    pub found: Result<FoundTool, FindError>,
}

/// Locates every tool.
pub fn list() -> Vec<ToolReport> {
    let find =
        |tool: &'static Tool| ToolReport { tool, found: tool.find(&ToolPaths::of_process(tool, None)) };
    tools::ALL.into_iter().map(find).collect()
}

/// Installs the missing tools of a group.
pub fn install(group: ToolGroup) -> Result<Vec<InstalledTool>> {
    let folder = ToolPaths::install_folder()
        .context("no folder to install into: set OCTILE_TOOLS to an absolute path")?;
    let group = match group {
        ToolGroup::Tpu => tools::LIBTPU.group,
        ToolGroup::Gpu => tools::PTXAS.group,
    };
    tools::ALL
        .into_iter()
        .filter(|tool| tool.group == group)
        .map(|tool| tools::install(tool, &folder))
        .collect()
}
