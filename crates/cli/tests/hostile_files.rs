//! Inputs that are not regular files, never end, or are too large fail at once with one sentence.

#![cfg(unix)]

#[path = "common/corpus.rs"]
mod corpus;
#[path = "common/manifests.rs"]
mod manifests;

use std::{
    fs::{self, File},
    os::unix::{fs::symlink, net::UnixListener},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use corpus::{octile, unpack};
use manifests::{file, seal, write_manifest};
use tempfile::TempDir;

/// The smallest kernel with an operand.
const KERNEL: &str = "module {\n  func.func @k(%x: memref<8x128xf32, #tpu.memory_space<vmem>>) attributes \
                      {window_params = [{}]} {\n    return\n  }\n}\n";
const SMEM: &str = "512-qb128-aligned-v3-tpu7x";

/// Requires that a command fails soon, with one sentence.
fn refused(place: &Path, arguments: &[&str], sentence: &str) {
    let start = Instant::now();
    let output = octile(arguments, place);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
    assert!(said.contains(sentence) && said.trim().lines().count() == 1, "{arguments:?}: {said}");
    // Generous, because tests share the machine; a blocked read never returns.
    assert!(start.elapsed() < Duration::from_secs(60), "{arguments:?} took {:?}", start.elapsed());
}

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Every command that reads a named file.
fn every_reader(name: &str) -> Vec<Vec<String>> {
    let texts = [
        &["verify", name][..],
        &["analyze", name],
        &["compare", name],
        &["report", name, "-o", "page.html"],
        &["simulate", name, "--tensors", "t.safetensors"],
        &["simulate", "kernel.mlir", "--tensors", name],
        &["run-module", "--plugin", "none.so", name, "--tensors", "t.safetensors"],
        &["run-module", "--plugin", "none.so", "kernel.mlir", "--tensors", name],
    ];
    texts.map(|arguments| arguments.iter().map(|argument| (*argument).to_owned()).collect()).to_vec()
}

#[test]
fn only_regular_files_are_read() {
    let place = TempDir::new().unwrap();
    fs::write(place.path().join("kernel.mlir"), KERNEL).unwrap();
    fifo(&place.path().join("pipe"));
    let _listener = UnixListener::bind(place.path().join("socket")).unwrap();
    for (name, kind) in
        [("pipe", "a FIFO"), ("socket", "a socket"), ("/dev/zero", "a device"), ("/dev/tty", "")]
    {
        for arguments in every_reader(name) {
            let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
            refused(place.path(), &arguments, &format!("cannot read {name}: it is {kind}"));
        }
    }
    symlink("pipe", place.path().join("kernel.ptx")).unwrap();
    refused(
        place.path(),
        &["simulate", "kernel.ptx"],
        "cannot read kernel.ptx: it is a FIFO, not a regular file",
    );
    symlink("loop", place.path().join("loop")).unwrap();
    refused(
        place.path(),
        &["simulate", "loop", "--tensors", "t"],
        "cannot read loop: Too many levels of symbolic links",
    );
    assert!(!place.path().join("page.html").exists());
}

#[test]
fn folders_may_contain_only_regular_files() {
    let place = TempDir::new().unwrap();
    let own = unpack(SMEM, &place.path().join("own"));
    let listed = unpack(SMEM, &place.path().join("listed"));
    write_manifest(&listed, "smem");
    type Make = fn(&Path);
    let makes: [(Make, &str); 6] = [
        (fifo, "it is a FIFO, not a regular file"),
        (|path| drop(UnixListener::bind(path).unwrap()), "it is a socket, not a regular file"),
        (|path| symlink("/dev/zero", path).unwrap(), "it is a symbolic link that leaves"),
        (|path| symlink("stray", path).unwrap(), "Too many levels of symbolic links"),
        (|path| symlink("nowhere", path).unwrap(), "No such file or directory"),
        (|path| File::create(path).unwrap().set_len(1 << 40).unwrap(), "it is larger than 128 MiB"),
    ];
    for folder in [&own, &listed] {
        for (make, sentence) in makes {
            let stray = folder.join("stray");
            make(&stray);
            for input in [folder.to_str().unwrap(), folder.parent().unwrap().to_str().unwrap()] {
                for command in ["verify", "analyze", "compare", "report"] {
                    refused(place.path(), &[command, input], sentence);
                }
            }
            fs::remove_file(stray).unwrap();
        }
        let output = octile(&["verify", folder.to_str().unwrap()], place.path());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
}

#[test]
fn listed_files_must_be_regular() {
    let place = TempDir::new().unwrap();
    let folder = unpack(SMEM, place.path());
    let mut manifest = write_manifest(&folder, "smem");
    manifest["files"].as_array_mut().unwrap().push(file(&folder.join("mosaic.mlir"), "raw/extra.txt"));
    seal(&folder, &manifest);
    fs::create_dir(folder.join("raw")).unwrap();
    fifo(&folder.join("raw/extra.txt"));
    refused(place.path(), &["verify", SMEM], "raw/extra.txt: it is a FIFO, not a regular file");
    fs::remove_file(folder.join("raw/extra.txt")).unwrap();
    fs::create_dir(folder.join("raw/extra.txt")).unwrap();
    refused(place.path(), &["verify", SMEM], "raw/extra.txt: it is a folder, not a regular file");
    fs::remove_dir(folder.join("raw/extra.txt")).unwrap();
    fs::remove_file(folder.join("manifest.json")).unwrap();
    File::create(folder.join("manifest.json")).unwrap().set_len(1 << 40).unwrap();
    let output = octile(&["verify", SMEM], place.path());
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("manifest.json: it is larger than 4 MiB"), "{said}");
}

#[test]
fn size_limits_hold() {
    let place = TempDir::new().unwrap();
    let sparse = |name: &str, length: u64| {
        File::create(place.path().join(name)).unwrap().set_len(length).unwrap();
    };
    fs::write(place.path().join("kernel.mlir"), KERNEL).unwrap();
    sparse("huge", 1 << 40);
    for arguments in every_reader("huge") {
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        refused(place.path(), &arguments, "cannot read huge: it is larger than ");
    }
    // Many files of a permitted size.
    let folder = place.path().join("many");
    fs::create_dir(&folder).unwrap();
    for index in 0..5 {
        sparse(&format!("many/{index}"), 128 << 20);
    }
    refused(
        place.path(),
        &["verify", "many"],
        "cannot read many/4: one command reads at most 512 MiB of dumps",
    );
    // Many files.
    let folder = place.path().join("crowd");
    fs::create_dir(&folder).unwrap();
    for index in 0..10_001 {
        File::create(folder.join(index.to_string())).unwrap();
    }
    refused(place.path(), &["verify", "crowd"], "cannot list crowd: one command lists at most 10000 files");
    refused(place.path(), &["report", "."], "one command lists at most 10000 files");
    // Deeply nested folders are not searched.
    fs::remove_dir_all(&folder).unwrap();
    let deep = folder.join(["d"; 1000].join("/"));
    fs::create_dir_all(&deep).unwrap();
    refused(place.path(), &["verify", "crowd"], "crowd/d contains folders but no files");
}

/// Streams that a shell passes are read like files, up to the same limit.
#[test]
fn streams_named_on_the_command_line_are_read() {
    let place = TempDir::new().unwrap();
    let folder = unpack(SMEM, place.path());
    let mosaic = folder.join("mosaic.mlir");
    let run = |script: &str| {
        let mut command = Command::new("bash");
        command.args(["-c", script]).current_dir(place.path());
        command.env("OCTILE", env!("CARGO_BIN_EXE_octile")).env("FILE", &mosaic);
        let output = command.stdin(Stdio::null()).output().unwrap();
        (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    let scripts = [
        "$OCTILE verify $FILE --strategy smem --chip tpu7x",
        "$OCTILE verify - --strategy smem --chip tpu7x < $FILE",
        "cat $FILE | $OCTILE verify - --strategy smem --chip tpu7x",
        "cat $FILE | $OCTILE verify /dev/stdin --strategy smem --chip tpu7x",
        "$OCTILE verify <(cat $FILE) --strategy smem --chip tpu7x",
    ];
    for script in scripts {
        let (code, said) = run(script);
        assert!(code == Some(0) && said.contains("PASS: 1 version"), "{script}: {said}");
    }
    for (script, sentence) in [
        ("$OCTILE verify - < /dev/zero", "cannot read -: it is larger than 128 MiB"),
        ("$OCTILE verify <(cat /dev/zero)", ": it is larger than 128 MiB"),
        ("$OCTILE verify /dev/fd/5 5< /dev/zero", "cannot read /dev/fd/5: it is a device"),
        ("$OCTILE verify -", "stdin is empty"),
    ] {
        let (code, said) = run(script);
        assert!(code != Some(0) && said.contains(sentence), "{script}: {said}");
    }
}
