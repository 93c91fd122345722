//! `octile compare`: what became of every part of one dump in another.

#[path = "common/corpus.rs"]
mod corpus;

use std::fs;

use corpus::{outcome, unpack};
use tempfile::TempDir;

const DMA: &str = "512-qb128-aligned-v2-tpu7x";
const SMEM: &str = "512-qb128-aligned-v3-tpu7x";

fn json(arguments: &[&str], place: &TempDir) -> serde_json::Value {
    let (code, said) = outcome(&[&["compare", "--json"], arguments].concat(), place.path());
    assert_eq!(code, 0, "{said}");
    serde_json::from_str(&said).unwrap()
}

#[test]
fn two_dumps_are_compared_part_by_part() {
    let place = TempDir::new().unwrap();
    for case in [DMA, SMEM] {
        unpack(case, place.path());
    }
    let value = json(&[DMA, SMEM], &place);
    let parts = value["differences"][0]["parts"].as_array().unwrap();
    let moved = parts.iter().find(|part| part["role"] == "the buffer of the first scale").unwrap();
    assert_eq!(moved["shifts"][0]["aspect"], "space");
    assert_eq!(
        (&moved["shifts"][0]["before"], &moved["shifts"][0]["after"]),
        (&"VMEM".into(), &"SMEM".into())
    );
    assert_eq!(
        (&moved["before"]["file"], &moved["after"]["file"]),
        (&"mosaic.mlir".into(), &"mosaic.mlir".into())
    );
    let (_, text) = outcome(&["compare", DMA, SMEM], place.path());
    for line in [
        "  the buffer of the first scale moved VMEM -> SMEM\n".to_owned(),
        format!("      before {DMA}/mosaic.mlir:2:"),
        format!("      after  {SMEM}/mosaic.mlir:2:"),
        "  copies of the second scale go HBM -> SMEM, no longer HBM -> VMEM\n".to_owned(),
    ] {
        assert!(text.contains(&line), "{line} is not in {text}");
    }
    assert!(json(&[DMA, DMA], &place)["differences"][0]["parts"].as_array().unwrap().is_empty());
}

#[test]
fn two_folders_of_versions_are_compared_by_name() {
    let place = TempDir::new().unwrap();
    for (folder, name) in [("before", "v2"), ("before", "v3"), ("after", "v2"), ("after", "v3")] {
        let parent = place.path().join(folder);
        fs::create_dir_all(&parent).unwrap();
        // What is called v2 has become what v3 was.
        let case = if (folder, name) == ("before", "v2") { DMA } else { SMEM };
        fs::rename(unpack(case, &parent), parent.join(name)).unwrap();
    }
    let value = json(&["before", "after"], &place);
    let differences = value["differences"].as_array().unwrap();
    let sides = |at: usize| (differences[at]["before"].as_str(), differences[at]["after"].as_str());
    assert_eq!(
        [sides(0), sides(1)],
        [(Some("before/v2"), Some("after/v2")), (Some("before/v3"), Some("after/v3"))]
    );
    let parts = |at: usize| differences[at]["parts"].as_array().unwrap().len();
    assert!(parts(0) > 4 && parts(1) == 0, "{} {}", parts(0), parts(1));
    let (_, text) = outcome(&["compare", "before", "after"], place.path());
    assert!(
        text.contains("before/v2 -> after/v2") && text.contains("No part of the structure differs"),
        "{text}"
    );
}

#[test]
fn a_single_file_is_compared_with_a_folder() {
    let place = TempDir::new().unwrap();
    let folder = unpack(DMA, place.path());
    fs::copy(folder.join("mosaic.mlir"), place.path().join("other.mlir")).unwrap();
    let (code, text) = outcome(&["compare", DMA, "other.mlir"], place.path());
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("No part of the structure differs"), "{text}");
    assert!(text.contains("not compared: only the first dump has a scheduled LLO listing"), "{text}");
}
