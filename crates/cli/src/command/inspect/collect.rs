//! From the compiler's hundred files to the handful worth reading.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

/// The optimized module.
pub const OPTIMIZED_HLO: &str = "optimized.hlo.txt";
/// The kernel's instructions, one bundle per cycle.
pub const PACKED_BUNDLES: &str = "packed-bundles-post-ra.txt";

/// Each listing of the kernel: the compiler's label, our file name.
const KERNEL_LISTINGS: [(&str, &str); 4] = [
    ("packed-bundles-post-ra", PACKED_BUNDLES),
    ("final_bundles", "final_bundles.txt"),
    ("final_hlo-static-per-bundle-utilization", "final_hlo-static-per-bundle-utilization.txt"),
    ("schedule-analysis_final_bundles", "schedule-analysis.txt"),
];

/// What each file of a version's folder is.
pub const ROLES: [(&str, &str); 8] = [
    ("stablehlo.mlir", "the StableHLO module that was compiled"),
    ("mosaic.mlir", "the Mosaic kernel inside of it"),
    (OPTIMIZED_HLO, "the optimized module, with the memory spaces of its operands and the VMEM it uses"),
    (PACKED_BUNDLES, "LLO: the kernel's instructions, one bundle per cycle"),
    ("final_bundles.txt", "LLO after the last pass: the same instructions without empty bundles"),
    ("final_hlo-static-per-bundle-utilization.txt", "units in use, per bundle"),
    ("schedule-analysis.txt", "scheduled and empty bundles, per operation"),
    ("executable.bin", "the executable, for a runtime of the same libtpu version"),
];

/// Copies the kernel's listings and the optimized module from the compiler's dump into `folder`.
pub fn listings(dump: &Path, kernel: &str, folder: &Path) -> Result<()> {
    let files = files_below(dump)?;
    let copy = |found: Option<&PathBuf>, what: &str, name: &str| -> Result<()> {
        let file = found.with_context(|| format!("the compiler wrote no {what} for {kernel}"))?;
        fs::copy(file, folder.join(name)).with_context(|| format!("cannot copy {}", file.display()))?;
        Ok(())
    };
    for (label, name) in KERNEL_LISTINGS {
        copy(files.iter().find(|file| is_listing(file, kernel, label)), label, name)?;
    }
    // Written last, it also says how much vector memory each operation uses.
    let optimized = files.iter().find(|file| file_name(file).ends_with(".after_codegen.txt"));
    copy(optimized, "optimized HLO", OPTIMIZED_HLO)
}

/// The folder of a version that has everything the compiler wrote, where that is kept.
pub const RAW: &str = "raw";

/// Copies a folder with everything in it.
pub fn copy_all(from: &Path, to: &Path) -> Result<()> {
    for file in files_below(from)? {
        let target = to.join(file.strip_prefix(from)?);
        fs::create_dir_all(target.parent().unwrap_or(to))?;
        fs::copy(&file, &target).with_context(|| format!("cannot copy {}", file.display()))?;
    }
    Ok(())
}

/// Listings are named `NUMBER-KERNEL[.COPY]-LABEL.txt`.
fn is_listing(file: &Path, kernel: &str, label: &str) -> bool {
    let matches = || {
        let (number, rest) = file_name(file).split_once('-')?;
        let rest = rest.strip_prefix(kernel)?.strip_suffix(".txt")?.strip_suffix(label)?.strip_suffix('-')?;
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        Some(is_number(number) && is_number(rest.strip_prefix('.').unwrap_or(rest)))
    };
    matches().unwrap_or(false)
}

fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// Every file in a folder and the folders below it, by name.
pub fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listings_of_the_kernel_are_told_from_others() {
        let is = |name: &str| is_listing(Path::new(name), "octile_dma", "final_bundles");
        assert!(is("d/0004-octile_dma.2-final_bundles.txt"));
        assert!(is("0004-octile_dma-final_bundles.txt"));
        assert!(!is("0004-octile_dma_large.2-final_bundles.txt"));
        assert!(!is("0003-octile_dma.2-schedule-analysis_final_bundles.txt"));
        assert!(!is("0004-copy.1-final_bundles.txt"));
        assert!(!is("octile_dma.txt"));
    }
}
