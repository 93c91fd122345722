//! Chrome trace of a timeline.

use octile_mosaic::interpret::{Timeline, Work};
use serde_json::{Value, json};

/// Rows of the trace.
const UNITS: [(&str, u32); 4] = [("MXU", 0), ("VPU and scalar unit", 1), ("waits", 2), ("DMAs", 3)];

fn row(work: Work) -> u32 {
    match work {
        Work::Matmul => 0,
        Work::Vector | Work::Scalar => 1,
        Work::Wait => 2,
        Work::Copy => 3,
    }
}

/// Converts a timeline into the format of `chrome://tracing` and Perfetto, with times in microseconds.
pub fn chrome_trace(timeline: &Timeline) -> Value {
    let microseconds = |cycles: f64| 1e6 * cycles / timeline.rates.hertz;
    let names = UNITS.map(
        |(name, row)| json!({"name": "thread_name", "ph": "M", "pid": 0, "tid": row, "args": {"name": name}}),
    );
    // DMAs overlap, which a row of complete events cannot show: each becomes an asynchronous pair.
    let copies = timeline.events.iter().enumerate().filter(|(_, event)| event.work == Work::Copy);
    let copies = copies.flat_map(|(id, event)| {
        let half = |phase: &str, cycles: f64| {
            json!({
                "name": format!("DMA {}", event.label), "cat": "copy", "ph": phase, "id": id, "pid": 0,
                "tid": row(Work::Copy), "ts": microseconds(cycles),
                "args": {"line": event.line, "bytes": event.bytes},
            })
        };
        [half("b", event.start), half("e", event.end)]
    });
    let spans = timeline.events.iter().filter(|event| event.work != Work::Copy).map(|event| {
        json!({
            "name": event.label, "cat": event.work, "ph": "X", "pid": 0, "tid": row(event.work),
            "ts": microseconds(event.start), "dur": microseconds(event.end - event.start),
            "args": {"line": event.line},
        })
    });
    let events: Vec<Value> = names.into_iter().chain(spans).chain(copies).collect();
    json!({"displayTimeUnit": "ns", "traceEvents": events})
}
