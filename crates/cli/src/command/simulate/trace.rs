//! The timeline as a Chrome trace.

use octile_mosaic::interpret::{Timeline, Work};
use serde_json::{Value, json};

/// The rows of the trace: what works beside what.
const UNITS: [(&str, u32); 4] = [("matrix units", 0), ("vector unit", 1), ("waiting", 2), ("copies", 3)];

fn row(work: Work) -> u32 {
    match work {
        Work::Matmul => 0,
        Work::Vector | Work::Scalar => 1,
        Work::Wait => 2,
        Work::Copy => 3,
    }
}

/// Events with times in microseconds, as `chrome://tracing` and Perfetto read them.
pub fn chrome_trace(timeline: &Timeline) -> Value {
    let microseconds = |cycles: f64| 1e6 * cycles / timeline.rates.hertz;
    let names = UNITS.map(
        |(name, row)| json!({"name": "thread_name", "ph": "M", "pid": 0, "tid": row, "args": {"name": name}}),
    );
    // Copies overlap one another, which a row of complete events cannot show: each is an asynchronous pair.
    let copies = timeline.events.iter().enumerate().filter(|(_, event)| event.work == Work::Copy);
    let copies = copies.flat_map(|(id, event)| {
        let half = |phase: &str, cycles: f64| {
            json!({
                "name": format!("copy {}", event.label), "cat": "copy", "ph": phase, "id": id, "pid": 0,
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
