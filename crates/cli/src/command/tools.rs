//! `octile tools`: which compilers and disassemblers are there, and fetching those that are not.

use anyhow::{Context, Result};

use crate::{
    args::ToolGroup,
    tools::{self, FindError, Found, Installed, Places, Tool},
};

/// A tool, and where it is.
#[derive(Debug)]
pub struct ToolReport {
    /// Which tool.
    pub tool: &'static Tool,
    /// Where it is, or why it cannot be used.
    pub found: Result<Found, FindError>,
}

/// Looks for every tool.
pub fn list() -> Vec<ToolReport> {
    let find = |tool: &'static Tool| ToolReport { tool, found: tool.find(&Places::of_process(tool, None)) };
    tools::ALL.into_iter().map(find).collect()
}

/// Fetches the tools of a group that are not there yet.
pub fn install(group: ToolGroup) -> Result<Vec<Installed>> {
    let folder = Places::install_folder()
        .context("there is no folder to install into: set OCTILE_TOOLS to the absolute path of one")?;
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
