use super::*;
use crate::{device::cpu::Isa, plan::cpu::Blocking};

fn device(units: usize) -> TunedDevice {
    TunedDevice { target: TunedTarget::Cpu, name: "Zen 5".to_owned(), units }
}

fn entry(shape: &str, tuned_ms: f64) -> TunedEntry {
    let choice = CpuChoice { isa: Isa::Avx2, threads: 2, blocking: Blocking::default() };
    TunedEntry {
        device: device(2),
        with: TunedWith::new("abc", ""),
        problem: shape.parse().unwrap(),
        choice: Some(TunedChoice::Cpu(choice)),
        speedup: 2.0 / tuned_ms,
        candidates: 3,
        date: "2026-11-18T00:00:00Z".to_owned(),
        samples: vec![TunedSamples {
            call: "warm".to_owned(),
            unit: "ms".to_owned(),
            default: vec![2.0; 3],
            tuned: vec![tuned_ms; 3],
        }],
    }
}

fn table(entries: Vec<TunedEntry>) -> TunedTable {
    let mut table = TunedTable::default();
    table.merge(entries);
    table
}

#[test]
fn a_table_comes_back_from_its_text() {
    let table = table(vec![entry("16x512x512:128", 1.0), entry("1x512x512:128", 1.5)]);
    assert_eq!(TunedTable::parse(&table.to_text()).unwrap(), table);
    assert_eq!(table.to_text().lines().count(), 4, "{}", table.to_text());
    let empty = TunedTable::default();
    assert_eq!(TunedTable::parse(&empty.to_text()).unwrap(), empty);
}

#[test]
fn a_new_entry_replaces_the_old_one() {
    let table = table(vec![entry("1x512x512:128", 1.0), entry("1x512x512:128", 1.5)]);
    assert_eq!(table.entries.len(), 1);
    assert_eq!(table.entries[0].samples[0].tuned[0], 1.5);
}

#[test]
fn shipped_tables_are_valid() {
    for (name, text) in SHIPPED {
        TunedTable::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// Every cut and many changed bytes: an error or a table, never a panic.
#[test]
fn damaged_text_is_an_error() {
    let text = table(vec![entry("16x512x512:128", 1.0)]).to_text();
    for end in 0..text.len() - 2 {
        assert!(TunedTable::parse(&text[..end]).is_err(), "{end}");
    }
    for at in 0..text.len() {
        for byte in [b'0', b'"', b'}', b'-', 0xff] {
            let mut bytes = text.clone().into_bytes();
            bytes[at] = byte;
            let _ = TunedTable::parse(&String::from_utf8_lossy(&bytes));
        }
    }
    let message = |text: &str| TunedTable::parse(text).unwrap_err().to_string();
    assert_eq!(message("{}"), "it is not a table of tuned plans: its schema is not octile-tuned");
    assert_eq!(
        message(r#"{"schema":"octile-tuned","version":2,"other":[]}"#),
        "its format has version 2, and this octile reads version 1"
    );
}

#[test]
fn entries_that_no_search_writes_are_refused() {
    let message = |change: fn(&mut TunedEntry)| {
        let mut changed = entry("16x512x512:128", 1.0);
        change(&mut changed);
        TunedTable::parse(&table(vec![changed]).to_text()).unwrap_err().to_string()
    };
    assert_eq!(
        message(|entry| entry.device.target = TunedTarget::Gpu),
        "its entry for 16x512x512:128 has a choice for another kind of device"
    );
    assert_eq!(
        message(|entry| entry.samples[0].tuned = vec![2.1; 3]),
        "its entry for 16x512x512:128 has a choice that is slower than the default"
    );
    assert_eq!(
        message(|entry| entry.samples.clear()),
        "its entry for 16x512x512:128 has a choice without samples"
    );
    assert_eq!(
        message(|entry| entry.samples[0].default[1] = -1.0),
        "its entry for 16x512x512:128 has samples that are no times"
    );
}

fn usable(table: &TunedTable, units: usize, with: impl Fn(&TunedEntry) -> Option<TunedWith>) -> usize {
    let found = |entry: &&TunedEntry| table.lookup(&device(units), &entry.problem, &with).is_some();
    table.entries.iter().filter(found).count()
}

#[test]
fn stale_and_foreign_entries_do_not_count() {
    let table = table(vec![entry("16x512x512:128", 1.0), entry("17x512x512:128", 1.0)]);
    let now = |kernels: &'static str, driver: &'static str| {
        move |_: &TunedEntry| Some(TunedWith::new(kernels, driver))
    };
    assert_eq!(usable(&table, 2, now("abc", "")), 2);
    assert_eq!(table.stale(&device(2), now("abc", "")), None);
    assert_eq!(usable(&table, 3, now("abc", "")), 0);
    assert_eq!(usable(&table, 2, now("abd", "")), 0);
    assert_eq!(
        table.stale(&device(2), now("abd", "")).unwrap(),
        "ignoring 2 tuned entries for Zen 5, 2 threads measured with other kernels: run `octile tune`"
    );
    assert_eq!(
        table.stale(&device(2), now("abc", "13.1")).unwrap(),
        "ignoring 2 tuned entries for Zen 5, 2 threads measured with driver , not 13.1: run `octile tune`"
    );
    let mut old = entry("16x512x512:128", 1.0);
    old.with.library = "0.0.9".to_owned();
    let old = TunedTable { entries: vec![old], ..TunedTable::default() };
    assert_eq!(usable(&old, 2, now("abc", "")), 0);
    assert_eq!(
        old.stale(&device(2), now("abc", "")).unwrap(),
        format!(
            "ignoring 1 tuned entry for Zen 5, 2 threads measured with octile 0.0.9, not {LIBRARY}: run `octile tune`"
        )
    );
}
