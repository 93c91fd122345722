//! The Pallas kernels in a lowered module, as text: their names and bodies.
//!
//! The module goes to the compiler unchanged, so only its calls of `tpu_custom_call` and the number of its
//! devices are read here. A kernel without a program gets one.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use anyhow::{Result, bail};
use octile_core::device::tpu::TpuChip;
use octile_mosaic::{
    Function, Type,
    interpret::{kernel_entry, mesh_devices},
    limits::MAX_DEVICES,
};
use octile_runtime::pjrt::DeviceCounts;
use serde_json::Value;

use super::bare;
use crate::{
    input,
    kernel_file::{self, FROM_JAX, KernelContent},
    print::{one_line, shown},
};

/// Call target of Pallas kernels.
const TARGET: &str = "tpu_custom_call";
/// Name of a kernel that the module does not name.
const UNNAMED: &str = "kernel";

/// A lowered module.
#[derive(Debug)]
pub struct LoweredModule {
    /// Its name, for example `jit_f`.
    pub name: String,
    /// StableHLO text.
    pub stablehlo: String,
    /// Its kernels, each once.
    pub kernels: Vec<LoweredKernel>,
    /// Devices that run it.
    pub devices: DeviceCounts,
    /// Whether the program was written around a kernel, with extents that depend on operands.
    pub assumed: bool,
}

/// A kernel that a module calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoweredKernel {
    /// Its name in the module.
    pub name: String,
    /// Name of its output folder.
    pub folder: String,
    /// The embedded kernel, in base64.
    pub body: String,
}

impl LoweredModule {
    /// Reads a module, or a kernel, from a file, a stream or a folder of Mosaic dumps. `devices` replaces one
    /// device, and `chip` is what a kernel without a program is called on.
    pub fn read(path: &Path, devices: Option<usize>, chip: &TpuChip) -> Result<Self> {
        let path = if path.is_dir() { &only_dumped(path)? } else { path };
        let content = KernelContent::read(path)?;
        let mut module = match &content {
            KernelContent::Text(text) if text.lines().any(is_call) => Self::parse(text.clone(), path)?,
            content => {
                let file = content.module(path)?;
                if !kernel_entry(&file.module).is_some_and(is_kernel) {
                    bail!("{} calls no Pallas kernel ({TARGET}): {FROM_JAX}", shown(path));
                }
                let around = bare::program(content, &file, chip)?;
                Self { assumed: around.assumed, ..Self::parse(around.stablehlo, path)? }
            }
        };
        module.devices = match (module.devices, devices) {
            (found, None) => found,
            (found, Some(devices)) if found.total() == devices => found,
            (found, Some(replicas)) if found.total() == 1 => DeviceCounts { replicas, partitions: 1 },
            (found, Some(devices)) => {
                bail!("the module is for {} devices, not {devices}: leave out --devices", found.total())
            }
        };
        Ok(module)
    }

    /// Reads StableHLO text. `path` is for errors.
    fn parse(stablehlo: String, path: &Path) -> Result<Self> {
        let name = after(&stablehlo, "module @").map_or("module", identifier).to_owned();
        let mut kernels: Vec<LoweredKernel> = Vec::new();
        let mut folders = BTreeSet::new();
        for line in stablehlo.lines().filter(|line| is_call(line)) {
            let Some(body) = body(line) else {
                bail!("{}: a call of {TARGET} has no kernel in its backend_config", shown(path));
            };
            if kernels.iter().any(|kernel| kernel.body == body) {
                continue;
            }
            let name = after(line, "kernel_name = ").and_then(string).unwrap_or_default();
            let name = if name.is_empty() { UNNAMED.to_owned() } else { one_line(&name) };
            let folder = free_name(&plain(&name), &mut folders);
            kernels.push(LoweredKernel { name, folder, body });
        }
        if kernels.is_empty() {
            bail!("{} calls no Pallas kernel ({TARGET}): {FROM_JAX}", shown(path));
        }
        let devices = device_counts(&stablehlo);
        Ok(Self { name, stablehlo, kernels, devices, assumed: false })
    }
}

/// The kernel of a folder of Mosaic dumps.
fn only_dumped(folder: &Path) -> Result<PathBuf> {
    let mut files = kernel_file::dumped_kernels(folder)?;
    if files.len() > 1 {
        let names: Vec<_> = files.iter().map(|file| input::file_name(file)).collect();
        bail!("{} holds {} kernels: name one of {}", shown(folder), names.len(), names.join(", "));
    }
    Ok(files.remove(0))
}

/// Whether a function takes memory, as kernels do.
fn is_kernel(function: &Function) -> bool {
    function.body.arguments.iter().any(|&value| matches!(function.ty(value), Type::MemRef(_)))
}

/// The devices that a module is for: those of its mesh, or of its attributes.
fn device_counts(stablehlo: &str) -> DeviceCounts {
    let count = |key: &str| {
        let digits = after(stablehlo, key)?;
        digits.split(|c: char| !c.is_ascii_digit()).next()?.parse::<usize>().ok().filter(|&count| count > 0)
    };
    // A module that was lowered for an abstract mesh says that it has one partition. Before JAX 0.7 the mesh
    // is in shardings: `{devices=[4,1]<=[4]}`.
    let listed = || {
        let (extents, _) = after(after(stablehlo, "{devices=[")?, "<=[")?.split_once(']')?;
        let extents = extents.split(',').map(|extent| extent.parse::<usize>().ok());
        extents.collect::<Option<Vec<_>>>()?.into_iter().try_fold(1usize, usize::checked_mul)
    };
    let sharded = || mesh_devices(&octile_mosaic::parse(stablehlo).ok()?).ok()?;
    let mesh = || sharded().or_else(listed).filter(|devices| (1..=MAX_DEVICES).contains(devices));
    let partitions = count("mhlo.num_partitions = ").unwrap_or(1);
    DeviceCounts {
        replicas: count("mhlo.num_replicas = ").unwrap_or(1),
        partitions: if partitions > 1 { partitions } else { mesh().unwrap_or(1) },
    }
}

/// Whether a line calls a kernel, in the pretty or the generic form.
fn is_call(line: &str) -> bool {
    line.contains("stablehlo.custom_call")
        && (line.contains("@tpu_custom_call") || line.contains("\"tpu_custom_call\""))
}

/// The kernel in the `backend_config` of a call.
fn body(line: &str) -> Option<String> {
    let config: Value = serde_json::from_str(&string(after(line, "backend_config = ")?)?).ok()?;
    Some(config.get("custom_call_config")?.get("body")?.as_str()?.to_owned())
}

/// The text after the first `key`.
fn after<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    text.split_once(key).map(|(_, rest)| rest)
}

fn identifier(text: &str) -> &str {
    text.split(|c: char| !c.is_ascii_alphanumeric() && !"_.$-".contains(c)).next().unwrap_or_default()
}

/// Reads an MLIR string at the beginning of a text: `\22` is a byte in hexadecimal.
fn string(text: &str) -> Option<String> {
    let mut bytes = text.strip_prefix('"')?.bytes();
    let mut value = Vec::new();
    loop {
        match bytes.next()? {
            b'"' => return String::from_utf8(value).ok(),
            b'\\' => value.push(escaped(&mut bytes)?),
            byte => value.push(byte),
        }
    }
}

fn escaped(bytes: &mut std::str::Bytes<'_>) -> Option<u8> {
    let first = bytes.next()?;
    Some(match first {
        b'n' => b'\n',
        b't' => b'\t',
        b'"' | b'\\' => first,
        _ => {
            let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            digit(first)? << 4 | digit(bytes.next()?)?
        }
    })
}

/// A folder name: no separators, no leading dot, and not longer than file systems allow.
fn plain(name: &str) -> String {
    const LONGEST: usize = 100;
    let keep = |c: char| if c.is_ascii_alphanumeric() || "_-.".contains(c) { c } else { '_' };
    let plain: String = name.chars().take(LONGEST).map(keep).collect();
    let plain = plain.trim_start_matches('.');
    if plain.is_empty() { UNNAMED.to_owned() } else { plain.to_owned() }
}

/// The name, with a number if another kernel has it.
fn free_name(name: &str, taken: &mut BTreeSet<String>) -> String {
    let numbered = (2..).map(|number| format!("{name}_{number}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    names.find(|name| taken.insert(name.clone())).unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, body: &str) -> String {
        format!(
            r#"    %0 = stablehlo.custom_call @tpu_custom_call(%arg0) {{backend_config = "{{\22custom_call_config\22: {{\22body\22: \22{body}\22}}}}", kernel_name = "{name}"}} : (tensor<8xf32>) -> tensor<8xf32>"#
        )
    }

    fn parse(text: &str) -> Result<LoweredModule> {
        LoweredModule::parse(text.to_owned(), Path::new("lowered.mlir"))
    }

    #[test]
    fn kernels_are_named_once_each() {
        let calls = [call("k", "QQ=="), call("k", "Qg=="), call("k", "QQ=="), call("../up", "Qw==")];
        let text = format!("module @jit_f attributes {{}} {{\n{}\n}}", calls.join("\n"));
        let module = parse(&text).unwrap();
        let folders: Vec<_> = module.kernels.iter().map(|kernel| kernel.folder.as_str()).collect();
        assert_eq!((module.name.as_str(), folders), ("jit_f", vec!["k", "k_2", "_up"]));
    }

    #[test]
    fn the_generic_form_is_read_too() {
        let text = r#""builtin.module"() ({ "func.func"() ({
            %1 = "stablehlo.custom_call"(%0) <{backend_config = "{\22custom_call_config\22: {\22body\22: \22QQ==\22}}", call_target_name = "tpu_custom_call"}> {kernel_name = "k"} : (tensor<8xf32>) -> tensor<8xf32>"#;
        assert_eq!(parse(text).unwrap().kernels[0].name, "k");
    }

    #[test]
    fn devices_come_from_the_attributes_or_the_mesh() {
        let counts = |text: &str| {
            let devices = device_counts(text);
            (devices.replicas, devices.partitions)
        };
        assert_eq!(counts("module @m {}"), (1, 1));
        let attributes =
            "module @m attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 2 : i32} {}";
        assert_eq!(counts(attributes), (2, 4));
        let older = r#"module @m { %0 = stablehlo.custom_call @Sharding(%a) {mhlo.sharding = "{devices=[4,1]<=[2,2]}"} }"#;
        assert_eq!(counts(older), (1, 4));
        let ring = include_str!("../../../../mosaic/tests/sharded/all_gather_ring.mlir");
        assert_eq!(counts(ring), (1, 4));
    }

    #[test]
    fn a_module_without_a_kernel_is_rejected() {
        assert!(parse("module @m {}").unwrap_err().to_string().contains("calls no Pallas kernel"));
        let empty = "stablehlo.custom_call @tpu_custom_call(%0) {backend_config = \"{}\"}";
        assert!(parse(empty).unwrap_err().to_string().contains("has no kernel in its backend_config"));
    }
}
