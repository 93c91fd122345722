//! The compiler's tables.

mod common;

use common::{FINAL, PACKED, cases, load, try_load};
use octile_dump::{
    llo::{Listing, SimOptions, simulate},
    schedule::ScheduleAnalysis,
    utilization::Utilization,
};

#[test]
fn utilization_tables_match_their_listings() {
    for case in cases() {
        let table = Utilization::parse(&load(&case, "final_hlo-static-per-bundle-utilization.txt"));
        assert_eq!(table.damage, [], "{case}");
        assert_eq!(table.capacity, [2, 2, 4, 2, 1, 3, 3, 2, 2, 2], "{case}");
        let text = load(&case, FINAL);
        assert_eq!(table.rows().len(), Listing::parse(&text).bundles().len(), "{case}");
    }
}

#[test]
fn a_table_weighted_by_executions_is_the_use_of_the_units() {
    let mut compared = 0;
    for case in cases() {
        let Some(table) = try_load(&case, "pre-delay_hlo-static-per-bundle-utilization.txt") else {
            continue;
        };
        let text = load(&case, PACKED);
        let cycles = simulate(&Listing::parse(&text), &SimOptions::default()).unwrap();
        let table = Utilization::parse(&table);
        assert_eq!(table.weighted(&cycles.executions), Some(cycles.units), "{case}");
        assert_eq!(table.weighted(&[1, 2, 3]), None);
        compared += 1;
    }
    assert_eq!(compared, 4);
}

#[test]
fn damaged_tables_say_where() {
    let table = Utilization::parse("== CAPACTIY:\nMXU, SALU\n 2 2\n== UTILIZATION:\n1 0\n1 x\n1 2 3\n");
    let places: Vec<_> = table.damage.iter().map(|d| d.to_string()).collect();
    assert_eq!(
        places,
        ["6:1: this row does not match the columns", "7:1: this row does not match the columns"]
    );
    assert_eq!(table.rows().len(), 1);
    assert_eq!(Utilization::parse("").damage[0].what, "there is no row in this table");
    assert_eq!(Utilization::parse("HloModule x").damage[0].what, "this is no utilization table");
}

#[test]
fn schedule_analyses_add_up() {
    for case in cases() {
        let analysis = ScheduleAnalysis::parse(&load(&case, "schedule-analysis.txt"));
        assert_eq!(analysis.damage, [], "{case}");
        assert_eq!(analysis.total, analysis.empty + analysis.non_empty, "{case}");
        let text = load(&case, FINAL);
        assert_eq!(analysis.total as usize, Listing::parse(&text).bundles().len(), "{case}");
        assert_eq!(analysis.by_opcode[0].opcode, "custom-call", "{case}");
        assert_eq!(analysis.by_hlo[0].bundles, analysis.non_empty as f64, "{case}");
    }
    let text = load("512-qb128-aligned-v3-tpu7x", "schedule-analysis.txt");
    let cut = ScheduleAnalysis::parse(&text[..text.len() / 2]);
    let headed = ScheduleAnalysis::parse("Schedule analysis:\n");
    for damage in [&cut.damage[0], &headed.damage[0]] {
        assert_eq!(damage.what, "the parts do not add up to the whole: the file is cut off");
    }
    let empty = ScheduleAnalysis::parse("");
    assert_eq!(empty.damage[0].what, "the schedule analysis is empty");
    let foreign = ScheduleAnalysis::parse("Schedule analysis:\n\ttotal scheduled bundles: x\n");
    assert_eq!(foreign.damage[0].place.line, 2);
}
