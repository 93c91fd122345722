//! The Pallas kernels in a lowered module, as text: their names and bodies.
//!
//! The module goes to the compiler unchanged, so only its calls of `tpu_custom_call` are read here.

use std::{collections::BTreeSet, path::Path};

use anyhow::{Result, bail};
use serde_json::Value;

use crate::{
    input,
    kernel_file::FROM_JAX,
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
    /// Reads a module from a file.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = input::read(path, input::DUMP_BYTES)?;
        let text =
            String::from_utf8(bytes).ok().filter(|text| text.contains("stablehlo.") || !is_mosaic(text));
        let Some(text) = text else {
            bail!(
                "{} is a kernel without the program around it, which says what its operands are: {FROM_JAX}",
                shown(path)
            );
        };
        Self::parse(text, path)
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
        Ok(Self { name, stablehlo, kernels })
    }
}

/// Whether a text is a kernel by itself.
fn is_mosaic(text: &str) -> bool {
    text.contains("func.func") && (text.contains("tpu.") || text.contains("stable_mosaic."))
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
    fn a_module_without_a_kernel_is_rejected() {
        assert!(parse("module @m {}").unwrap_err().to_string().contains("calls no Pallas kernel"));
        let empty = "stablehlo.custom_call @tpu_custom_call(%0) {backend_config = \"{}\"}";
        assert!(parse(empty).unwrap_err().to_string().contains("has no kernel in its backend_config"));
    }
}
