//! Selects the compiler output that is worth keeping.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::print::shown;

/// The optimized module.
pub(crate) const OPTIMIZED_HLO: &str = "optimized.hlo.txt";
/// The kernel's instructions, one bundle per cycle.
pub(crate) const PACKED_BUNDLES: &str = "packed-bundles-post-ra.txt";

/// Listings of the kernel: the compiler's label and our file name.
const KERNEL_LISTINGS: [(&str, &str); 4] = [
    ("packed-bundles-post-ra", PACKED_BUNDLES),
    ("final_bundles", "final_bundles.txt"),
    ("final_hlo-static-per-bundle-utilization", "final_hlo-static-per-bundle-utilization.txt"),
    ("schedule-analysis_final_bundles", "schedule-analysis.txt"),
];

/// The files of a version's folder, for the manifest.
pub(crate) const ROLES: [(&str, &str); 8] = [
    ("stablehlo.mlir", "compiled StableHLO module"),
    ("mosaic.mlir", "Mosaic kernel in that module"),
    (OPTIMIZED_HLO, "optimized HLO, with memory spaces of operands and VMEM use"),
    (PACKED_BUNDLES, "LLO listing of the kernel, one bundle per cycle"),
    ("final_bundles.txt", "final LLO listing, without empty bundles"),
    ("final_hlo-static-per-bundle-utilization.txt", "units in use, per bundle"),
    ("schedule-analysis.txt", "scheduled and empty bundles, per operation"),
    ("executable.bin", "executable, for a runtime of the same libtpu version"),
];

/// Copies the listings of a planned kernel and the optimized HLO from the compiler's dump into `folder`.
pub(crate) fn listings(dump: &Path, kernel: &str, folder: &Path) -> Result<()> {
    copy_listings(dump, kernel, folder, is_listing)
}

/// The same for one operation of the HLO.
pub(crate) fn operation_listings(dump: &Path, operation: &str, folder: &Path) -> Result<()> {
    copy_listings(dump, operation, folder, is_listing_of)
}

/// Whether there is a listing of an operation: of equal ones, the compiler lists one.
pub(crate) fn has_listing(files: &[PathBuf], operation: &str) -> bool {
    let [(label, _), ..] = KERNEL_LISTINGS;
    files.iter().any(|file| is_listing_of(file, operation, label))
}

/// The last HLO dump, which includes the VMEM use of each operation.
pub(crate) fn optimized_hlo(files: &[PathBuf]) -> Option<&PathBuf> {
    files.iter().find(|file| file_name(file).ends_with(".after_codegen.txt"))
}

fn copy_listings(
    dump: &Path,
    kernel: &str,
    folder: &Path,
    is_listing: fn(&Path, &str, &str) -> bool,
) -> Result<()> {
    let files = files_below(dump)?;
    let copy = |found: Option<&PathBuf>, what: &str, name: &str| -> Result<()> {
        let file = found.with_context(|| format!("the compiler wrote no {what} for {kernel}"))?;
        fs::copy(file, folder.join(name)).with_context(|| format!("cannot copy {}", shown(file)))?;
        Ok(())
    };
    for (label, name) in KERNEL_LISTINGS {
        copy(files.iter().find(|file| is_listing(file, kernel, label)), label, name)?;
    }
    copy(optimized_hlo(&files), "optimized HLO", OPTIMIZED_HLO)
}

/// Folder of all compiler output, with `--keep-dumps`.
pub(crate) const RAW: &str = "raw";

/// Copies a folder recursively.
pub(crate) fn copy_all(from: &Path, to: &Path) -> Result<()> {
    for file in files_below(from)? {
        let target = to.join(file.strip_prefix(from)?);
        fs::create_dir_all(target.parent().unwrap_or(to))?;
        fs::copy(&file, &target).with_context(|| format!("cannot copy {}", shown(&file)))?;
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

/// Whether the whole name matches: `name.1` is not `name.10`.
fn is_listing_of(file: &Path, operation: &str, label: &str) -> bool {
    let (number, rest) = file_name(file).split_once('-').unwrap_or_default();
    !number.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_digit())
        && rest == format!("{operation}-{label}.txt")
}

fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// Lists every file in and below a folder, sorted.
pub(crate) fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot list {}", shown(&folder)))? {
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
    fn only_listings_of_the_kernel_match() {
        let is = |name: &str| is_listing(Path::new(name), "octile_dma", "final_bundles");
        assert!(is("d/0004-octile_dma.2-final_bundles.txt"));
        assert!(is("0004-octile_dma-final_bundles.txt"));
        assert!(!is("0004-octile_dma_large.2-final_bundles.txt"));
        assert!(!is("0003-octile_dma.2-schedule-analysis_final_bundles.txt"));
        assert!(!is("0004-copy.1-final_bundles.txt"));
        assert!(!is("octile_dma.txt"));
    }
}
