//! Folders that libtpu itself wrote, with `--xla_dump_to`, `--xla_jf_dump_to` and `--xla_mosaic_dump_to`:
//! finds the kernels among hundreds of files.
//!
//! | file | written by |
//! |---|---|
//! | `1794851469190506525-name.1-63-packed-bundles-post-ra.txt` | `--xla_jf_dump_to` |
//! | `jit_f.name.1.deduplicated/0063-name.1-packed-bundles-post-ra.txt` | the same, with subdirectories |
//! | `module_0000.jit_f.cl_933746096.after_codegen.txt` | `--xla_dump_to` |
//! | `1794850372192121657-0001-mosaic-dump-anonymous-original.txt` | `--xla_mosaic_dump_to` |

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use anyhow::Result;
use octile_dump::hlo;

use super::find::{Group, file_name};
use crate::{
    input::Allowance,
    print::{one_line, shown},
};

/// Listings to read, the most detailed first.
const LABELS: [&str; 4] = [
    "packed-bundles-post-ra",
    "final_bundles",
    "final_hlo-static-per-bundle-utilization",
    "schedule-analysis_final_bundles",
];
/// HLO to read, the latest stage first.
const HLO_STAGES: [&str; 3] =
    [".after_codegen.txt", ".after_optimizations_after_buffer_assignment.txt", ".after_optimizations.txt"];
/// Folders below the named one that are searched.
const DEPTH: usize = 3;
/// The program around the kernels, in the names of listings.
const AROUND: [&str; 3] = ["TLP", "<late-initialization>", "<late-finalization>"];

/// Listings of one operation.
#[derive(Debug, Default)]
struct Listed {
    /// Files by position in [`LABELS`].
    files: BTreeMap<usize, PathBuf>,
}

/// Which compilation of which operation a listing is of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ListingKey {
    operation: String,
    /// The module, where its folder says so.
    module: Option<String>,
    /// Time of the compilation, where files of several are in one folder.
    time: Option<u64>,
}

/// The optimized HLO of a module.
struct Program {
    module: String,
    path: PathBuf,
    /// Operations that call kernels.
    calls: Vec<String>,
}

/// Groups the kernels of a folder that the compiler wrote; `None` for other folders.
pub(super) fn kernels(folder: &Path, allowance: &mut Allowance) -> Result<Option<Vec<Group>>> {
    let files = files_below(folder, allowance)?;
    let listings = listings(&files);
    if listings.is_empty() {
        return Ok(None);
    }
    let programs = programs(&files, allowance)?;
    let mosaic: Vec<_> = files.iter().filter(|file| is_mosaic_original(file)).collect();
    let mut groups = Vec::new();
    for (key, listed) in &listings {
        let program = program_of(key, &listings, &programs);
        let is_kernel = match program {
            Some(program) => program.calls.contains(&key.operation),
            // Without HLO, every operation may be a kernel.
            None => programs.is_empty() && !AROUND.contains(&key.operation.as_str()),
        };
        if is_kernel {
            groups.push(group(folder, key, listed, program));
        }
    }
    // Dumps of Mosaic do not say which kernel they are of.
    if let ([group], [mosaic]) = (groups.as_mut_slice(), mosaic.as_slice()) {
        group.files.push((*mosaic).clone());
    }
    require_some(folder, &groups)?;
    let read: usize = groups.iter().map(|group| group.files.len()).sum();
    if let Some(first) = groups.first_mut() {
        first.ignored = files.len().saturating_sub(read);
    }
    Ok(Some(groups))
}

fn group(folder: &Path, key: &ListingKey, listed: &Listed, program: Option<&Program>) -> Group {
    let mut files: Vec<_> = listed.files.values().cloned().collect();
    files.extend(program.map(|program| program.path.clone()));
    let module = program.map(|program| program.module.clone()).or_else(|| key.module.clone());
    let name = match module {
        Some(module) => format!("{module}/{}", key.operation),
        None => key.operation.clone(),
    };
    Group {
        name: one_line(&name),
        path: folder.to_owned(),
        files,
        beside: None,
        operation: Some(key.operation.clone()),
        ignored: 0,
    }
}

/// Lists files in and below a folder, sorted.
fn files_below(folder: &Path, allowance: &mut Allowance) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        let listing = allowance.list(&folder)?;
        files.extend(listing.files);
        if depth < DEPTH {
            folders.extend(listing.folders.into_iter().map(|folder| (folder, depth + 1)));
        }
    }
    files.sort();
    Ok(files)
}

fn listings(files: &[PathBuf]) -> BTreeMap<ListingKey, Listed> {
    let mut found: BTreeMap<ListingKey, Listed> = BTreeMap::new();
    for file in files {
        if let Some((key, label)) = listing(file) {
            // Of several compilations in a folder without times, the last one counts.
            found.entry(key).or_default().files.insert(label, file.clone());
        }
    }
    found
}

/// The operation and the position in [`LABELS`] of a listing.
fn listing(file: &Path) -> Option<(ListingKey, usize)> {
    let (number, rest) = file_name(file).strip_suffix(".txt")?.split_once('-')?;
    let number: u64 = number.parse().ok()?;
    let mut labels = LABELS.iter().enumerate();
    let (index, named) =
        labels.find_map(|(index, label)| Some((index, rest.strip_suffix(label)?.strip_suffix('-')?)))?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let key = match named.rsplit_once('-').filter(|(_, pass)| is_number(pass)) {
        Some((operation, _)) => {
            ListingKey { operation: operation.to_owned(), module: None, time: Some(number) }
        }
        None => {
            let folder = file.parent().map(file_name).unwrap_or_default();
            let folder = folder.strip_suffix(".deduplicated").unwrap_or(folder);
            let module = folder.strip_suffix(named).and_then(|module| module.strip_suffix('.'));
            ListingKey { operation: named.to_owned(), module: module.map(str::to_owned), time: None }
        }
    };
    Some((key, index))
}

/// Reads the latest HLO of every module.
fn programs(files: &[PathBuf], allowance: &mut Allowance) -> Result<Vec<Program>> {
    let mut latest: BTreeMap<String, (usize, &PathBuf)> = BTreeMap::new();
    for file in files {
        let stage = HLO_STAGES
            .iter()
            .enumerate()
            .find_map(|(stage, suffix)| Some((stage, file_name(file).strip_suffix(suffix)?.to_owned())));
        let Some((stage, name)) = stage else { continue };
        let entry = latest.entry(name).or_insert((stage, file));
        if stage < entry.0 {
            *entry = (stage, file);
        }
    }
    let mut programs = Vec::new();
    for (_, path) in latest.into_values() {
        let Ok(text) = String::from_utf8(allowance.read(path)?) else { continue };
        let parsed = hlo::Module::parse(&text);
        let calls = parsed.kernel_calls().into_iter().map(|call| call.name).collect();
        programs.push(Program { module: module_name(&text), path: path.clone(), calls });
    }
    Ok(programs)
}

/// The name after `HloModule`.
fn module_name(text: &str) -> String {
    let name = text.trim_start().strip_prefix("HloModule ").unwrap_or_default();
    name.split([',', ' ', '\n']).next().unwrap_or_default().to_owned()
}

/// The program that an operation belongs to. Without folders, the compilations of operations of one name are
/// in the order of the programs that call them.
fn program_of<'p>(
    key: &ListingKey,
    listings: &BTreeMap<ListingKey, Listed>,
    programs: &'p [Program],
) -> Option<&'p Program> {
    if let Some(module) = &key.module {
        return programs.iter().rev().find(|program| program.module == *module);
    }
    let calling: Vec<_> = programs.iter().filter(|program| program.calls.contains(&key.operation)).collect();
    let same: Vec<_> = listings.keys().filter(|other| other.operation == key.operation).collect();
    if calling.is_empty() {
        return programs.first();
    }
    let index = same.iter().position(|other| *other == key)?;
    calling.get(index).copied().filter(|_| calling.len() == same.len())
}

/// Whether a file is a kernel as it entered the compiler.
fn is_mosaic_original(file: &Path) -> bool {
    let name = file_name(file);
    name.contains("-mosaic-dump-") && name.ends_with("-original.txt")
}

/// Rejects a folder without a kernel.
fn require_some(folder: &Path, groups: &[Group]) -> Result<()> {
    if groups.is_empty() {
        anyhow::bail!(
            "{} has no listing of a Pallas kernel: dump with --xla_jf_dump_to and --xla_dump_to in \
             LIBTPU_INIT_ARGS, or compile with `octile inspect`",
            shown(folder)
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn write(root: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    fn found(root: &Path) -> Vec<(String, usize, usize)> {
        let groups = kernels(root, &mut Allowance::default()).unwrap().unwrap();
        groups.into_iter().map(|group| (group.name, group.files.len(), group.ignored)).collect()
    }

    const HLO: &str = "HloModule jit_f, entry\nENTRY %main () -> f32[8] {\n  ROOT %k.1 = f32[8]{0} \
                       custom-call(), custom_call_target=\"tpu_custom_call\"\n}\n";

    #[test]
    fn kernels_are_grouped_by_module_and_operation() {
        let root = tempfile::tempdir().unwrap();
        let files = [
            ("jit_f.k.1.deduplicated/0063-k.1-packed-bundles-post-ra.txt", ""),
            ("jit_f.k.1.deduplicated/0070-k.1-final_bundles.txt", ""),
            ("jit_f.k.1.deduplicated/0069-k.1-schedule-analysis_final_bundles.txt", ""),
            ("jit_f.k.1.deduplicated/0002-k.1-original.txt", ""),
            ("jit_f.copy.1/0063-copy.1-packed-bundles-post-ra.txt", ""),
            ("jit_f/TLP/0063-TLP-packed-bundles-post-ra.txt", ""),
            ("module_0000.jit_f.cl_9.before_optimizations.txt", ""),
            ("module_0000.jit_f.cl_9.after_optimizations.txt", ""),
            ("module_0000.jit_f.cl_9.after_codegen.txt", HLO),
            ("179-0001-mosaic-dump-anonymous-original.txt", "module {}"),
        ];
        write(root.path(), &files);
        assert_eq!(found(root.path()), [("jit_f/k.1".to_owned(), 5, 5)]);
    }

    #[test]
    fn without_folders_compilations_are_told_apart_by_time() {
        let root = tempfile::tempdir().unwrap();
        let other = HLO.replace("jit_f", "jit_g");
        let files = [
            ("1794851469190506525-k.1-63-packed-bundles-post-ra.txt", ""),
            ("1794851469290506525-k.1-63-packed-bundles-post-ra.txt", ""),
            ("1794851469290506525-TLP-63-packed-bundles-post-ra.txt", ""),
            ("module_0000.jit_f.cl_9.after_codegen.txt", HLO),
            ("module_0001.jit_g.cl_9.after_codegen.txt", &other),
        ];
        write(root.path(), &files);
        assert_eq!(found(root.path()), [("jit_f/k.1".to_owned(), 2, 1), ("jit_g/k.1".to_owned(), 2, 0)]);
    }

    #[test]
    fn other_folders_are_not_compiler_dumps() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), &[("v1/packed-bundles-post-ra.txt", ""), ("notes.txt", "")]);
        assert!(kernels(root.path(), &mut Allowance::default()).unwrap().is_none());
    }
}
