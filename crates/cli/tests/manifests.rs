//! Changed manifests, and manifests that list files outside their folder.

#[path = "common/corpus.rs"]
mod corpus;
#[path = "common/manifests.rs"]
mod manifests;

use std::{fs, path::PathBuf};

use corpus::{outcome, unpack};
use manifests::{file, seal, write_manifest};
use octile_cli::command::seal::{checksum, sealed};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A version that passes as `smem` also passes as `auto`.
const SMEM: &str = "512-qb128-aligned-v3-tpu7x";

struct Inspected {
    place: TempDir,
    folder: PathBuf,
    manifest: Value,
}

impl Inspected {
    fn new() -> Self {
        let place = TempDir::new().unwrap();
        let folder = place.path().join("out/v3");
        fs::create_dir(place.path().join("out")).unwrap();
        fs::rename(unpack(SMEM, place.path()), &folder).unwrap();
        let manifest = write_manifest(&folder, "smem");
        Self { place, folder, manifest }
    }

    fn outcome(&self, arguments: &[&str]) -> (i32, String) {
        outcome(arguments, self.place.path())
    }

    /// Requires that every command fails with this sentence.
    fn refused(&self, sentence: &str) {
        for command in ["verify", "analyze", "compare", "report"] {
            let (code, said) = self.outcome(&[command, "out"]);
            assert!(code != 0 && said.contains(sentence), "{command}: {sentence} is not in {code} {said}");
        }
    }

    /// The same after a change to the manifest, sealed again.
    fn resealed(&self, change: impl FnOnce(&mut Value), sentence: &str) {
        let mut changed = self.manifest.clone();
        change(&mut changed);
        assert_ne!(changed, self.manifest);
        seal(&self.folder, &changed);
        self.refused(sentence);
    }
}

#[test]
fn a_manifest_without_checksums_is_refused() {
    let version = Inspected::new();
    let path = version.folder.join("manifest.json");
    let lowered = |change: fn(&mut Value)| {
        let mut manifest: Value = serde_json::from_str(&sealed(&version.manifest).unwrap()).unwrap();
        for pointer in ["/strategy", "/plan/strategy"] {
            *manifest.pointer_mut(pointer).unwrap() = "auto".into();
        }
        change(&mut manifest);
        fs::write(&path, serde_json::to_string_pretty(&manifest).unwrap() + "\n").unwrap();
    };
    let remove_from_files = |manifest: &mut Value| {
        for file in manifest["files"].as_array_mut().unwrap() {
            file.as_object_mut().unwrap().remove("sha256");
        }
    };
    lowered(|_| ());
    version.refused("out/v3/manifest.json was changed since `octile inspect` wrote it");
    lowered(remove_from_files);
    version.refused("out/v3/manifest.json was changed since `octile inspect` wrote it");
    let without =
        "out/v3/manifest.json has no seal (key `sha256`): it was changed, or written by an earlier version";
    lowered(|manifest| drop(manifest.as_object_mut().unwrap().remove("sha256")));
    version.refused(without);
    lowered(|manifest| {
        manifest.as_object_mut().unwrap().remove("sha256");
        for file in manifest["files"].as_array_mut().unwrap() {
            file.as_object_mut().unwrap().remove("sha256");
        }
    });
    version.refused(without);
    // With the seal of an earlier version.
    lowered(|manifest| {
        manifest.as_object_mut().unwrap().remove("sha256");
        manifest["crc32"] = 7.into();
    });
    version.refused(
        "out/v3/manifest.json was written by an earlier version of octile: run `octile inspect` again",
    );
    // `simulate` rejects it, too.
    fs::write(version.folder.join("stablehlo.mlir"), "module {\n  func.func @main() { return }\n}\n")
        .unwrap();
    let (code, said) = version.outcome(&["simulate", "out/v3/stablehlo.mlir"]);
    assert!(code == 2 && said.contains("was written by an earlier version of octile"), "{said}");
}

/// Missing, unknown and duplicate keys are errors, even with a valid seal.
#[test]
fn every_key_of_a_manifest_is_needed() {
    let version = Inspected::new();
    let in_first_file = |manifest: &mut Value, value: Option<Value>| {
        let file = manifest["files"][0].as_object_mut().unwrap();
        match value {
            Some(value) => drop(file.insert("sha256".to_owned(), value)),
            None => drop(file.remove("sha256")),
        }
    };
    version.resealed(|manifest| in_first_file(manifest, None), "missing field `sha256`");
    version.resealed(
        |manifest| in_first_file(manifest, Some(Value::Null)),
        "invalid type: null, expected a string",
    );
    version.resealed(
        |manifest| in_first_file(manifest, Some(7.into())),
        "invalid type: integer `7`, expected a string",
    );
    version.resealed(|manifest| in_first_file(manifest, Some("".into())), "was changed, unlike its manifest");
    version.resealed(|manifest| manifest["files"][0]["size"] = 1.into(), "unknown field `size`");
    version.resealed(|manifest| manifest["waived"] = json!(["scales-staged"]), "unknown field `waived`");
    version.resealed(
        |manifest| manifest["strategy"] = "auto".into(),
        "`strategy` is auto, but `plan.strategy` is smem",
    );
    version.resealed(|manifest| manifest["plan"]["strategy"] = "none".into(), "unknown variant `none`");
    version.resealed(
        |manifest| manifest["plan"]["semaphores"] = 9.into(),
        "the plan is not one that this version of octile makes",
    );
    version.resealed(
        |manifest| manifest["schema"] = "octile-manifest/1".into(),
        "manifest.json has schema \"octile-manifest/1\", but this octile reads octile-manifest/2",
    );
    version.resealed(
        |manifest| drop(manifest.as_object_mut().unwrap().remove("schema")),
        "manifest.json was written by an earlier version of octile: run `octile inspect` again",
    );
    for key in ["strategy", "plan", "figures", "files"] {
        let sentence = format!("missing field `{key}`");
        version.resealed(|manifest| drop(manifest.as_object_mut().unwrap().remove(key)), &sentence);
    }
    for key in ["problem", "strategy", "mode", "tile"] {
        let sentence = format!("missing field `{key}`");
        version.resealed(|manifest| drop(manifest["plan"].as_object_mut().unwrap().remove(key)), &sentence);
    }
    for key in ["arithmetic", "grid", "memory"] {
        version.resealed(
            |manifest| drop(manifest["plan"].as_object_mut().unwrap().remove(key)),
            "the plan is not one that this version of octile makes",
        );
    }
    // Duplicate keys: readers differ in which one they use.
    let text = serde_json::to_string_pretty(&version.manifest).unwrap();
    let twice = text.replacen("\"strategy\": \"smem\"", "\"strategy\": \"auto\", \"strategy\": \"smem\"", 1);
    assert_ne!(twice, text);
    let seal = format!(
        "{},\n  \"sha256\": \"{}\"\n}}\n",
        twice.strip_suffix("\n}").unwrap(),
        checksum(twice.as_bytes())
    );
    fs::write(version.folder.join("manifest.json"), seal).unwrap();
    version.refused("duplicate key `strategy`");
}

/// Huge numbers do not overflow.
#[test]
fn huge_numbers_do_not_panic() {
    let version = Inspected::new();
    let most = u64::MAX;
    for (pointer, value) in [
        ("/plan/memory/0/copies", most.into()),
        ("/plan/memory/0/bytes", most.into()),
        ("/plan/memory/0/shape", json!([most, most])),
        ("/plan/grid", json!({ "m": most, "n": most, "k": most })),
        ("/plan/tile", json!({ "m": most, "n": most, "k": most })),
        ("/plan/tile", json!({ "m": 1u64 << 62, "n": 1u64 << 62, "k": 1u64 << 62 })),
        ("/plan/tile/m", 0.into()),
        ("/plan/weight_pipeline", json!({ "columns": 0, "stages": 0 })),
        ("/plan/problem/m", most.into()),
        ("/plan/problem/quant_block", most.into()),
        ("/figures", json!({ "code_bytes": most, "shared_bytes": most })),
        ("/files/0/bytes", most.into()),
    ] {
        let mut manifest = version.manifest.clone();
        *manifest.pointer_mut(pointer).unwrap() = value;
        seal(&version.folder, &manifest);
        for command in ["verify", "analyze", "compare", "report"] {
            let (code, said) = version.outcome(&[command, "out"]);
            assert!(code == 0 || code == 1, "{command} with {pointer}: {said}");
        }
    }
    fs::write(version.folder.join("stablehlo.mlir"), "module {\n  func.func @main() { return }\n}\n")
        .unwrap();
    for dimension in ["m", "n", "k", "quant_block"] {
        let mut manifest = version.manifest.clone();
        manifest["plan"]["problem"][dimension] = most.into();
        seal(&version.folder, &manifest);
        let (code, said) = version.outcome(&["simulate", "out/v3/stablehlo.mlir"]);
        assert!(code == 2 && said.trim().lines().count() == 1, "{dimension}: {said}");
    }
}

#[test]
fn a_manifest_names_files_of_its_own_folder_only() {
    let version = Inspected::new();
    let secret = version.place.path().join("secret.ptx");
    fs::write(&secret, ".version 8.0\n.target sm_90a\n// TOP-SECRET\n").unwrap();
    let absolute = secret.to_str().unwrap();
    let other = unpack(SMEM, &version.place.path().join("out"));
    fs::rename(&other, version.place.path().join("out/v2")).unwrap();
    let names = [
        "../../secret.ptx",
        absolute,
        "../v2/mosaic.mlir",
        "./mosaic.mlir",
        "raw/../mosaic.mlir",
        "raw//mosaic.mlir",
        "..",
        "",
        "..\\..\\secret.ptx",
        "C:secret.ptx",
        "/dev/zero",
        "mosaic.mlir\u{0}",
        "\u{1b}[2Jmosaic.mlir",
    ];
    for name in names {
        version.resealed(
            |manifest| manifest["files"].as_array_mut().unwrap().push(file(&secret, name)),
            "is not a path inside this folder: use names joined by /",
        );
        let page = fs::read_to_string(version.place.path().join("report.html")).unwrap();
        assert!(!page.contains("TOP-SECRET") && !page.contains('\u{1b}'), "{name}");
    }
}

/// Symbolic links must not leave the folder either.
#[cfg(unix)]
#[test]
fn a_manifest_names_no_links_out_of_its_folder() {
    use std::os::unix::fs::symlink;
    let version = Inspected::new();
    let secret = version.place.path().join("secret.ptx");
    fs::write(&secret, ".version 8.0\n.target sm_90a\n// TOP-SECRET\n").unwrap();
    fs::create_dir(version.place.path().join("elsewhere")).unwrap();
    fs::copy(&secret, version.place.path().join("elsewhere/kernel.ptx")).unwrap();
    symlink("../../elsewhere", version.folder.join("quantize")).unwrap();
    let listed = |name: &str| {
        let mut manifest = version.manifest.clone();
        manifest["files"].as_array_mut().unwrap().push(file(&secret, name));
        seal(&version.folder, &manifest);
    };
    listed("quantize/kernel.ptx");
    version.refused("is a symbolic link that leaves out/v3");
    fs::remove_file(version.folder.join("quantize")).unwrap();
    for target in ["../../secret.ptx", secret.to_str().unwrap(), "/dev/zero", "link.ptx", "."] {
        symlink(target, version.folder.join("link.ptx")).unwrap();
        listed("link.ptx");
        version.refused("out/v3/link.ptx: ");
        fs::remove_file(version.folder.join("link.ptx")).unwrap();
    }
    assert!(!version.place.path().join("report.html").exists());
    // Nor may the manifest itself be such a link.
    let manifest = version.folder.join("manifest.json");
    fs::rename(&manifest, version.place.path().join("manifest.json")).unwrap();
    symlink("../../manifest.json", &manifest).unwrap();
    version.refused("manifest.json: it is a symbolic link that leaves out/v3");
    fs::remove_file(&manifest).unwrap();
    fs::create_dir(&manifest).unwrap();
    version.refused("manifest.json: it is a folder, not a regular file");
}
