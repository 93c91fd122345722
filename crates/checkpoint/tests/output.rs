//! Output paths, atomic replacement and resumed runs.

mod common;

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
};

use common::{Place, decoder, quantize, read_folder};
use octile_checkpoint::{Checkpoint, CheckpointPlan, Outcome, Output, Progress, Result};
use octile_harness::requirement::Requirement;

fn write(input: &Path, output: &Path, force: bool, progress: &dyn Progress) -> Result<Outcome> {
    let checkpoint = Checkpoint::open(input)?;
    let plan = CheckpointPlan::new(&checkpoint, &quantize())?;
    let output = Output { path: output.to_owned(), force, threads: Some(1) };
    octile_checkpoint::write(&checkpoint, &plan, &output, progress)
}

/// Panics when the second shard starts: the closest a test gets to a kill without a child process.
struct Stop(AtomicUsize);

impl Progress for Stop {
    fn advance(&self, _: u64) {}

    fn begin(&self, _: &str) {
        assert!(self.0.fetch_add(1, Ordering::Relaxed) < 1, "stopped");
    }
}

fn interrupt(place: &Place) {
    let stop = Stop(AtomicUsize::new(0));
    let run = || write(&place.input(), &place.output(), false, &stop);
    assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
    assert_eq!(place.entries(), [".out.octile-work", "in"]);
}

fn bytes(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.filter(|path| path.is_file());
    let mut all: Vec<_> = files
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap()))
        .collect();
    all.sort();
    all
}

#[test]
fn an_interrupted_run_is_resumed_to_the_same_bytes() {
    let place = Place::new(&decoder());
    write(&place.input(), &place.0.path().join("whole"), false, &()).unwrap();
    let whole = bytes(&place.0.path().join("whole"));
    fs::remove_dir_all(place.0.path().join("whole")).unwrap();
    interrupt(&place);
    let outcome = write(&place.input(), &place.output(), false, &()).unwrap();
    assert_eq!(outcome.resumed, 1);
    assert_eq!(bytes(&place.output()), whole);
    assert_eq!(place.entries(), ["in", "out"]);
}

#[test]
fn leftovers_are_verified_before_they_are_used() {
    let first = "model-00001-of-00002.safetensors";
    let content = |place: &Place| place.0.path().join(".out.octile-work/content");
    type Damage = (&'static str, fn(&Path));
    let damages: [Damage; 4] = [
        ("flipped", |file| {
            let mut bytes = fs::read(file).unwrap();
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
            fs::write(file, bytes).unwrap();
        }),
        ("cut", |file| fs::OpenOptions::new().write(true).open(file).unwrap().set_len(1000).unwrap()),
        ("gone", |file| fs::remove_file(file).unwrap()),
        ("no journal", |file| fs::remove_file(file.parent().unwrap().with_file_name("finished")).unwrap()),
    ];
    let reference = Place::new(&decoder());
    write(&reference.input(), &reference.output(), false, &()).unwrap();
    for (what, damage) in damages {
        let place = Place::new(&decoder());
        interrupt(&place);
        damage(&content(&place).join(first));
        fs::write(content(&place).join("stray.safetensors"), "stray").unwrap();
        assert_eq!(write(&place.input(), &place.output(), false, &()).unwrap().resumed, 0, "{what}");
        assert_eq!(bytes(&place.output()), bytes(&reference.output()), "{what}");
    }
    // A changed input invalidates the earlier work.
    let place = Place::new(&decoder());
    interrupt(&place);
    let shard = place.input().join(first);
    let text = fs::read(&shard).unwrap();
    fs::write(&shard, text).unwrap();
    assert_eq!(write(&place.input(), &place.output(), false, &()).unwrap().resumed, 0);
}

#[test]
fn what_exists_is_replaced_only_on_request() {
    let place = Place::new(&decoder());
    write(&place.input(), &place.output(), false, &()).unwrap();
    fs::write(place.output().join("mine.txt"), "").unwrap();
    let error = write(&place.input(), &place.output(), false, &()).unwrap_err().to_string();
    assert!(error.contains("exists: name another output, or replace it with --force"), "{error}");
    assert!(place.output().join("mine.txt").exists());
    write(&place.input(), &place.output(), true, &()).unwrap();
    assert!(!place.output().join("mine.txt").exists());
    assert_eq!(place.entries(), ["in", "out"]);
    // A kill between the two renames does not lose the old output.
    let work = place.0.path().join(".out.octile-work");
    fs::create_dir(&work).unwrap();
    fs::write(place.output().join("old.txt"), "").unwrap();
    fs::rename(place.output(), work.join("replaced")).unwrap();
    let error = write(&place.input(), &place.output(), false, &()).unwrap_err().to_string();
    assert!(error.contains("--force") && place.output().join("old.txt").exists(), "{error}");
    assert_eq!(place.entries(), ["in", "out"]);
    write(&place.input(), &place.output(), true, &()).unwrap();
    // An empty folder may be used; a folder with other files must not be removed.
    let (empty, foreign) = (place.0.path().join("empty"), place.0.path().join("foreign"));
    fs::create_dir(&empty).unwrap();
    write(&place.input(), &empty, false, &()).unwrap();
    assert_eq!(read_folder(&empty), read_folder(&place.output()));
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("thesis.tex"), "").unwrap();
    let error = write(&place.input(), &foreign, true, &()).unwrap_err().to_string();
    assert!(error.contains("is not a checkpoint, so --force does not replace it"), "{error}");
    assert!(foreign.join("thesis.tex").exists());
}

#[test]
fn input_and_output_are_apart() {
    let place = Place::new(&decoder());
    let (input, root) = (place.input(), place.0.path().to_owned());
    let refused = |output: &Path, part: &str| {
        let before = place.entries();
        for force in [false, true] {
            let error = write(&input, output, force, &()).unwrap_err().to_string();
            assert!(error.contains(part), "{error}\nlacks {part}");
        }
        assert_eq!(place.entries(), before);
    };
    refused(&input, "it is the input");
    refused(&input.join("../in"), "it is the input");
    refused(&input.join("out"), "it is inside the input");
    refused(&input.join("extra/out"), "it is inside the input");
    refused(&root, "the input is inside it");
    refused(&root.join("no/such/out"), "there is no folder");
    fs::write(root.join("file"), "").unwrap();
    refused(&root.join("file"), "it is a file, but the output is a folder");
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(&input, root.join("link")).unwrap();
        refused(&root.join("link"), "it is a symbolic link");
        refused(&root.join("link/out"), "it is inside the input");
        std::os::unix::fs::symlink("nowhere", root.join("dangling")).unwrap();
        refused(&root.join("dangling"), "it is a symbolic link");
    }
    let file = input.join("model-00001-of-00002.safetensors");
    let error = write(&file, &root.join("one"), false, &()).unwrap_err().to_string();
    assert!(error.contains("ends with .safetensors"), "{error}");
    let error = write(&file, &file, true, &()).unwrap_err().to_string();
    assert!(error.contains("it is the input"), "{error}");
    write(&file, &root.join("one.safetensors"), false, &()).unwrap();
    let error = write(&file, &root.join("one.safetensors"), false, &()).unwrap_err().to_string();
    assert!(error.contains("--force"), "{error}");
    write(&file, &root.join("one.safetensors"), true, &()).unwrap();
}

#[test]
fn two_runs_do_not_share_a_work_folder() {
    struct Nested<'a>(&'a Place);
    impl Progress for Nested<'_> {
        fn advance(&self, _: u64) {}

        fn begin(&self, _: &str) {
            let error = write(&self.0.input(), &self.0.output(), false, &()).unwrap_err().to_string();
            assert!(error.starts_with("another octile process is writing"), "{error}");
        }
    }
    let place = Place::new(&decoder());
    write(&place.input(), &place.output(), false, &Nested(&place)).unwrap();
}

#[cfg(unix)]
#[test]
fn links_in_the_work_folder_are_not_followed() {
    use std::os::unix::fs::symlink;
    let place = Place::new(&decoder());
    let (work, victim) = (place.0.path().join(".out.octile-work"), place.0.path().join("victim"));
    fs::create_dir(&victim).unwrap();
    fs::write(victim.join("file"), "text").unwrap();
    for (name, target) in [
        ("content", victim.clone()),
        ("replaced", victim.clone()),
        ("lock", victim.join("file")),
        ("finished", victim.join("file")),
        ("plan", victim.join("file")),
    ] {
        fs::create_dir(&work).unwrap();
        symlink(target, work.join(name)).unwrap();
        let error = write(&place.input(), &place.output(), false, &()).unwrap_err().to_string();
        assert!(error.contains(".out.octile-work is in the way, so remove it"), "{error}");
        assert!(error.contains(&format!("'{name}' is not a")), "{error}");
        assert_eq!(fs::read_to_string(victim.join("file")).unwrap(), "text", "{name}");
        fs::remove_dir_all(&work).unwrap();
    }
    // Only root can give a folder away.
    fs::create_dir(&work).unwrap();
    if std::os::unix::fs::chown(&work, Some(12345), None).is_ok() {
        let error = write(&place.input(), &place.output(), false, &()).unwrap_err().to_string();
        assert!(error.contains("belongs to another user"), "{error}");
    } else {
        Requirement::Chown.report_absent("a work folder of another user", "this user cannot change owners");
    }
}
