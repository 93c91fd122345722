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

/// A table of as many entries as a long search writes is merged at once, not in the square of its length.
#[test]
fn long_tables_are_merged() {
    let mut table = TunedTable::default();
    let entries = |ms: f64| {
        (1..=40_000).map(move |m| TunedEntry {
            problem: Problem::new(m, 512, 512, crate::QuantBlock::B128).unwrap(),
            ..entry("1x512x512:128", ms)
        })
    };
    table.merge(entries(1.5).collect());
    table.merge(entries(1.0).rev().collect());
    assert_eq!(table.entries.len(), 40_000);
    assert!(table.entries.is_sorted_by_key(|entry| entry.problem.m));
    assert!(table.entries.iter().all(|entry| entry.samples[0].tuned[0] == 1.0));
}

#[test]
fn shipped_tables_are_valid() {
    for target in TunedTarget::ALL {
        let table = shipped(target).unwrap_or_else(|error| panic!("{}: {error}", target.file_name()));
        assert!(table.entries.iter().all(|entry| entry.device.target == target), "{}", target.file_name());
        let mut merged = TunedTable::default();
        merged.merge(table.entries.clone());
        assert_eq!(merged.entries.len(), table.entries.len(), "{} names a problem twice", target.file_name());
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
    assert_eq!(message("[]"), "it is not a table of tuned plans: line 1 has what does not belong in one");
    assert_eq!(message("{,"), "it is not a table of tuned plans: line 1 is not JSON");
    assert_eq!(message("{\n"), "it is not a table of tuned plans: it ends in the middle");
    // Nothing of a foreign file reaches the sentence.
    let key =
        format!(r#"{{"schema":"octile-tuned","version":1,"entries":[],"e\nvil{}":1}}"#, "A".repeat(999));
    assert_eq!(message(&key), "it is not a table of tuned plans: line 1 has what does not belong in one");
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
        "its entry for 16x512x512:128 has a choice that is not faster than the default in every way of calling"
    );
    assert_eq!(
        message(|entry| entry.samples.push(TunedSamples {
            call: "replay".to_owned(),
            tuned: vec![2.0, 2.0, 9.0],
            ..entry.samples[0].clone()
        })),
        "its entry for 16x512x512:128 has a choice that is not faster than the default in every way of calling"
    );
    assert_eq!(
        message(|entry| entry.samples.push(TunedSamples { tuned: Vec::new(), ..entry.samples[0].clone() })),
        "its entry for 16x512x512:128 has a choice without samples"
    );
    let not_followed = "its entry for 16x512x512:128 has a speedup that its samples do not give";
    for change in [
        (|entry| entry.speedup = -5.0) as fn(&mut TunedEntry),
        |entry| entry.speedup = 1e300,
        |entry| entry.speedup = 0.5,
        |entry| (entry.choice, entry.speedup) = (None, 2.0),
    ] {
        assert_eq!(message(change), not_followed);
    }
    assert_eq!(
        message(|entry| (entry.choice, entry.speedup, entry.samples[0].default) = (None, 1.0, Vec::new())),
        "its entry for 16x512x512:128 has no samples"
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

fn user(entries: Vec<TunedEntry>) -> TunedTables {
    TunedTables::of_user(table(entries))
}

/// What entries would be measured with now.
fn now(kernels: &'static str, driver: &'static str) -> impl Fn(&TunedEntry) -> Option<TunedWith> {
    move |_| Some(TunedWith::new(kernels, driver))
}

fn usable(tables: &TunedTables, units: usize, with: impl Fn(&TunedEntry) -> Option<TunedWith>) -> usize {
    let problems = ["16x512x512:128", "17x512x512:128"].map(|shape| shape.parse().unwrap());
    problems.iter().filter(|problem| tables.lookup(&device(units), problem, &with).is_some()).count()
}

#[test]
fn stale_and_foreign_entries_do_not_count() {
    let tables = user(vec![entry("16x512x512:128", 1.0), entry("17x512x512:128", 1.0)]);
    let stale = |tables: &TunedTables, kernels, driver| {
        tables.stale(&device(2), |_| true, now(kernels, driver)).unwrap_or_default()
    };
    assert_eq!(usable(&tables, 2, now("abc", "")), 2);
    assert_eq!(stale(&tables, "abc", ""), "");
    assert_eq!(usable(&tables, 3, now("abc", "")), 0);
    assert_eq!(usable(&tables, 2, now("abd", "")), 0);
    assert_eq!(usable(&tables, 2, |_| None), 0);
    assert_eq!(
        stale(&tables, "abd", ""),
        "ignoring 2 tuned entries for Zen 5, 2 threads, measured with other kernels"
    );
    let problem = "16x512x512:128".parse().unwrap();
    assert_eq!(
        tables.stale(&device(2), |asked| *asked == problem, |_| None).unwrap(),
        "ignoring 1 tuned entry for Zen 5, 2 threads, measured with plans that no search makes here"
    );
    assert_eq!(tables.stale(&device(2), |_| false, |_| None), None);
    let mut evil = entry("16x512x512:128", 1.0);
    evil.with.library = format!("1\n\u{1b}[31m{}", "A".repeat(99));
    let note = stale(&user(vec![evil]), "abc", "");
    let cut = format!("measured with octile 1\\n\\u{{1b}}[31m{}…, not {LIBRARY}", "A".repeat(33));
    assert!(note.ends_with(&cut), "{note}");
    let mut old = entry("16x512x512:128", 1.0);
    old.with.library = "0.0.9".to_owned();
    let mut driver = entry("17x512x512:128", 1.0);
    driver.with.driver = "12.8".to_owned();
    let tables = user(vec![old, driver]);
    assert_eq!(usable(&tables, 2, now("abc", "13.0")), 0);
    assert_eq!(
        stale(&tables, "abc", "13.0"),
        format!(
            "ignoring 2 tuned entries for Zen 5, 2 threads, measured 1 with driver 12.8, not driver 13.0; 1 \
             with octile 0.0.9, not {LIBRARY}"
        )
    );
}

/// A shipped entry is tied to its kernels, not to the driver below them; a user's own goes before it while it
/// counts.
#[test]
fn a_shipped_entry_counts_behind_those_of_the_user() {
    let shipped = |shape| TunedEntry {
        with: TunedWith { library: "0.0.9".to_owned(), ..TunedWith::new("abc", "12.8") },
        ..entry(shape, 1.5)
    };
    let shapes = ["16x512x512:128", "17x512x512:128"];
    let tables = user(vec![entry(shapes[0], 1.0)]).over(table(shapes.map(shipped).to_vec()));
    let found = |shape: &str, kernels, driver| {
        let entry = tables.lookup(&device(2), &shape.parse().unwrap(), now(kernels, driver))?;
        Some(entry.samples[0].tuned[0])
    };
    assert_eq!(found(shapes[0], "abc", ""), Some(1.0));
    assert_eq!(found(shapes[0], "abc", "13.0"), Some(1.5), "the user's is stale");
    assert_eq!(found(shapes[1], "abc", "13.0"), Some(1.5));
    assert_eq!(found(shapes[1], "abd", "12.8"), None, "other kernels");
    assert_eq!(tables.problems(&device(2)).count(), 3);
    assert_eq!(tables.problems(&device(3)).count(), 0);
}
