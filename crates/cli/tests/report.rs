//! `octile report`: the page by itself, and in a real browser.

#[path = "common/corpus.rs"]
mod corpus;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use corpus::{outcome, unpack};
use tempfile::TempDir;

const CASES: [&str; 2] = ["512-qb128-aligned-v2-operands-prefetched-tpu7x", "512-qb128-aligned-v3-tpu7x"];

/// The page about two recorded versions, one of which fails.
fn page(place: &Path) -> String {
    for case in CASES {
        unpack(case, &place.join("dumps"));
    }
    let hostile = place.join("dumps").join(CASES[0]).join("extra.mlir");
    fs::write(hostile, "module { func.func @x() { \"<script>alert(1)</script>\" } }\n").unwrap();
    let (code, said) = outcome(&["report", "dumps", "-o", "report.html"], place);
    assert_eq!(code, 0, "{said}");
    fs::read_to_string(place.join("report.html")).unwrap()
}

/// The values of an attribute.
fn values<'a>(page: &'a str, attribute: &str) -> BTreeSet<&'a str> {
    let opening = format!(" {attribute}=\"");
    page.split(&opening).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    let place = TempDir::new().unwrap();
    let page = page(place.path());
    for foreign in ["http:", "https:", "//cdn", "<script", "<link", "<img", "<iframe", "@import", "url("] {
        assert!(!page.contains(foreign), "the page contains {foreign}");
    }
    for part in ["Versions side by side", "Roofline plot", "Units in use over bundles", "Memory, to scale"] {
        assert!(page.contains(part), "{part} is missing");
    }
    assert!(page.contains("mosaic.mlir, ") && page.contains("packed-bundles-post-ra.txt, "));
}

#[test]
fn every_link_leads_to_a_line_of_the_page() {
    let place = TempDir::new().unwrap();
    let page = page(place.path());
    let ids = values(&page, "id");
    let links = values(&page, "href");
    assert!(links.len() > 10, "{links:?}");
    for link in links {
        let target = link.strip_prefix('#').unwrap_or_else(|| panic!("{link} leads elsewhere"));
        assert!(ids.contains(target), "nothing is at {link}");
    }
}

/// Chromium, if this machine has one.
fn browser() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome", "chrome"];
    let folders: Vec<_> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
    folders.iter().flat_map(|folder| names.map(|name| folder.join(name))).find(|path| path.is_file())
}

/// On a phone and on a desktop nothing is wider than the window, and every part is laid out.
#[test]
fn a_browser_lays_the_page_out() {
    let Some(browser) = browser() else {
        eprintln!("DID NOT RUN: a_browser_lays_the_page_out needs chromium, and PATH has none");
        return;
    };
    let place = TempDir::new().unwrap();
    let probe = "<script>addEventListener('load', () => { const d = document.documentElement;\
        const svg = [...document.querySelectorAll('svg')].every(s => s.getBoundingClientRect().height > 50);\
        const panes = document.querySelectorAll('.pane').length;\
        document.title = 'wide=' + (d.scrollWidth > d.clientWidth) + ' svg=' + svg + ' panes=' + (panes > 3); })</script>";
    let page = page(place.path()).replace("</body>", &format!("{probe}</body>"));
    let file = place.path().join("probe.html");
    fs::write(&file, page).unwrap();
    for size in ["--window-size=500,1200", "--window-size=1300,900"] {
        let mut command = Command::new(&browser);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]);
        command.args(["--dump-dom", "--virtual-time-budget=5000", size]);
        command.arg(format!("--user-data-dir={}", place.path().join("profile").display()));
        let output = command.arg(format!("file://{}", file.display())).output().expect("the browser starts");
        let dom = String::from_utf8_lossy(&output.stdout);
        let title = dom.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next());
        assert_eq!(title, Some("wide=false svg=true panes=true"), "{size}: {output:?}");
    }
}
