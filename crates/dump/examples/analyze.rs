//! Prints the verdicts on the dumps of one kernel: `analyze FILE... [--json]`.

use std::process::ExitCode;

use octile_dump::{
    checks::check,
    facts::{Facts, Source},
};

fn main() -> ExitCode {
    let (json, files): (Vec<_>, Vec<_>) = std::env::args().skip(1).partition(|argument| argument == "--json");
    let mut contents = Vec::new();
    for file in &files {
        match std::fs::read(file) {
            Ok(bytes) => contents.push(bytes),
            Err(error) => {
                eprintln!("{file}: {error}");
                return ExitCode::from(2);
            }
        }
    }
    let sources: Vec<_> = files.iter().zip(&contents).map(|(name, bytes)| Source { name, bytes }).collect();
    let facts = Facts::gather(&sources);
    let findings = check(&facts, None);
    if !json.is_empty() {
        let value = serde_json::json!({ "facts": facts, "findings": findings });
        println!("{value:#}");
        return ExitCode::SUCCESS;
    }
    for file in &facts.files {
        println!("{:?} {}", file.kind, file.name);
        file.damage.iter().for_each(|damage| println!("  damage at {damage}"));
    }
    for finding in &findings {
        println!("{:<16} {:?}: {}", finding.check, finding.verdict, finding.says);
        for evidence in &finding.evidence {
            println!("    {}:{}: {}", evidence.file, evidence.place, evidence.excerpt);
        }
    }
    ExitCode::SUCCESS
}
