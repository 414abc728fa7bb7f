//! The page of `show --html`, opened in a real browser and used as a reader does.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::support::page::{OUTCOME, Page, SERVER, SpanExt, span, startup, ten_thousand};

#[test]
fn all_of_a_startup_is_on_the_page() {
    let mut page = Page::of(&startup());
    assert_snapshot!(page.rows().join("\n"), @r"
    gym.startup ✗ failed | 12.4 s | 100%
    load_config | 3.00 ms | <1%
    spawn_servers | 12.0 ms | <1%
    reward | 12.4 s | 100%
    venv_setup | 9.09 s | 73%
    uv venv | 270 ms | 2%
    uv pip install | 8.69 s | 70%
    server_start | 3.29 s | 27%
    policy_model | 4.24 s | 34%
    venv_setup | 1.04 s | 8%
    server_start | 3.20 s | 26%
    its own report (pid 4711) | 3.89 s | 31%
    init_server | 2.81 s | 23%
    worker (pid 4712) | 300 ms | 2%
    worker_start | 300 ms | 2%
    judge ✗ failed | 2.69 s | 22%
    venv_setup | 2.39 s | 19%
    load weights not ended | 10.0 s | 81%
    no time at all | 0 s | 0%
    wait_for_servers | 12.4 s | 100%
    ");
    let header = page.browser.text("document.querySelector('section header').innerText");
    assert_snapshot!(header, @r"
    Dec 1, 2026, 6:30:00 AM UTC

    12.4 s
    ✗ failed
    3 servers: reward, policy_model, judge
    20 spans
    2 errors
    trace 1459932a52cac21e3ad6396c543dc573

    the longest path
    beside it
    error
    not ended
    ");
    assert_eq!(page.axis(), "0 s, 2 s, 4 s, 6 s, 8 s, 10 s, 12 s");
    assert_eq!(page.browser.eval("document.querySelector('table')"), Value::Null);
    page.was_quiet();
}

/// As of a server that was watched when it was ready already.
#[test]
fn a_startup_of_stages_alone_is_not_said_to_be_ready() {
    let setup = span(2, 1, "gym.server.startup.venv_setup", 0, 100_000).with(SERVER, "judge");
    let mut page = Page::of(&[setup]);
    let header = page.browser.text("document.querySelector('.sum').innerText");
    assert!(header.starts_with("1m 40s\noutcome unknown\n1 server: judge\n"), "{header}");
    let note = page.browser.text("document.querySelector('.notes li').textContent");
    assert!(note.starts_with("only stages are recorded, "), "{note}");
    page.was_quiet();
}

/// Twelve servers of two stages; the slowest setup has a name that nobody would choose.
fn twelve() -> Vec<Value> {
    let mut spans = vec![span(1, 0, "gym.startup", 0, 9_000).with(OUTCOME, "ready")];
    for server in 0..12 {
        let (id, done) = (10 + 10 * server, 2_000 + 500 * server);
        let name =
            if server == 11 { "<b>评价</b> ".repeat(9) } else { format!("server_{server}") };
        let of = |span: Value| span.with(SERVER, name.trim());
        spans.push(of(span(id, 1, "gym.startup.server", 10, done + 300)));
        spans.push(of(span(id + 1, id, "gym.startup.server.venv_setup", 10, done)));
        spans.push(of(span(id + 2, id, "gym.startup.server.server_start", done, done + 300)));
    }
    spans
}

#[test]
fn many_servers_are_summed_up_before_their_spans() {
    let mut page = Page::of(&twelve());
    let table = "[...document.querySelectorAll('section > .summary tr')].map(row =>
        [...row.children].map(it => it.textContent).join(' | ')).join('\\n')";
    assert_snapshot!(page.browser.text(table), @r"
    Stage | Count | Median | Maximum | Slowest | Node
    until ready | 12 | 5.04 s | 7.79 s | <b>评价</b> <b>评价</b> <b>评价</b> <b>评价</b> <b>评价</b> <b>评价</b> <b>评价</b> <b>评价</b> <b>评价</b> | node-1
    venv_setup | 12 | 4.74 s | 7.49 s | <b>评价</b> <b>评价</b> <b>评价</b> <b>评价</b> <b>评价</b> <b>评价</b> <b>评价</b> <b>评价</b> <b>评价</b> | node-1
    server_start | 12 | 300 ms | 300 ms | server_0 | node-1
    ");
    let follows = "!!(document.querySelector('.summary')
        .compareDocumentPosition(document.querySelector('.grid')) & Node.DOCUMENT_POSITION_FOLLOWING)";
    assert_eq!(page.browser.eval(follows), true);
    let tree = page.browser.call("Accessibility.getFullAXTree", json!({}));
    let all = tree["nodes"].as_array().unwrap().iter().filter(|node| node["ignored"] == false);
    let all: Vec<_> = all.collect();
    let names = |role: &str| -> Vec<_> {
        let of = all.iter().filter(|node| node["role"]["value"] == role);
        of.map(|node| node["name"]["value"].as_str().unwrap()).collect()
    };
    assert_eq!(names("table"), ["Stages of 12 servers"]);
    let headers = ["Stage", "Count", "Median", "Maximum", "Slowest", "Node"];
    assert!(
        names("columnheader").windows(6).any(|it| it == headers),
        "{:?}",
        names("columnheader")
    );
    let stages = ["until ready", "venv_setup", "server_start"];
    assert!(names("rowheader").windows(3).any(|it| it == stages), "{:?}", names("rowheader"));
    for scheme in ["dark", "light"] {
        page.prefer(scheme);
        assert_eq!(page.pale(), json!([]), "{scheme}");
        page.screenshot(&format!("summary-{scheme}"));
    }
    page.print("summary");
    page.browser.resize(360, 800);
    page.browser.settle();
    page.screenshot("summary-small");
    // No name is broken into letters: what is too wide is scrolled.
    let width = "document.querySelector('.summary tbody th').getBoundingClientRect().width";
    assert!(page.browser.eval(width).as_f64().unwrap() >= 80.0);
    let wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth";
    assert_eq!(page.browser.eval(wide), false);
    page.was_quiet();
}

#[test]
fn a_summary_has_the_stages_that_took_longest() {
    let mut page = Page::of(&ten_thousand());
    let rows = "document.querySelectorAll('.summary tbody tr').length";
    assert_eq!(page.browser.eval(rows), 24);
    let words = "document.querySelector('.summary .more').textContent";
    assert_eq!(page.browser.text(words), "9877 more stages, each 280 ms at most");
    page.was_quiet();
}

#[test]
fn a_row_can_be_folded_and_read_with_the_keyboard_alone() {
    let mut page = Page::of(&startup());
    page.browser.eval("document.querySelector('.keys summary').focus()");
    assert_eq!(page.press(&["Tab"]), "gym.startup");
    assert_eq!(page.attribute("aria-expanded"), "true");
    assert_eq!(page.press(&["ArrowDown"; 3]), "reward");
    assert_eq!(page.attribute("aria-level"), "2");
    let before = page.rows().len();
    assert_eq!(page.press(&["ArrowLeft"]), "reward");
    assert_eq!(page.attribute("aria-expanded"), "false");
    assert_eq!(page.rows().len(), before - 4);
    assert_eq!(page.press(&["ArrowDown"]), "policy_model");
    assert_eq!(page.press(&["ArrowUp", "ArrowRight"]), "reward");
    assert_eq!(page.rows().len(), before);
    assert_eq!(page.press(&["ArrowRight"]), "venv_setup");
    assert_eq!(page.press(&["ArrowRight"]), "uv venv");
    assert_eq!(page.press(&["ArrowRight"]), "uv venv");
    assert_eq!(page.press(&["ArrowLeft"]), "venv_setup");
    assert_eq!(page.press(&["End"]), "wait_for_servers");
    assert_eq!(page.press(&["Home"]), "gym.startup");
    assert_eq!(page.press(&["PageDown"]), "wait_for_servers");
    // One stop for Tab, whichever row it is.
    let stops = "document.querySelectorAll('.row[tabindex=\"0\"]').length";
    assert_eq!(page.browser.eval(stops), 1);
    page.was_quiet();
}

#[test]
fn enter_tells_all_about_a_span() {
    let mut page = Page::of(&startup());
    page.browser.eval("document.querySelector('.row').focus()");
    page.press(&["ArrowDown"; 15]);
    assert_eq!(page.press(&["Enter"]), "judge");
    assert_eq!(page.attribute("id"), "about");
    let facts = page.browser.text("document.querySelector('.facts').innerText");
    assert_snapshot!(facts, @r"
    Span
    gym.startup.server
    Start
    0.012000 s · 06:30:00.012 AM · 1796106600012000321 ns
    End
    2.700000 s · 06:30:02.700 AM · 1796106602700000321 ns
    Duration
    2.69 s, 22% of the startup
    Outcome
    failed
    Error
    exited with status 3 before it was ready
    ModuleNotFoundError: no module 'torch'
    Server
    judge
    Node
    node-1
    Attributes
    nemo.gym.server.name
    judge
    zone
    a
    nemo.gym.startup.outcome
    failed
    ");
    assert_eq!(page.press(&["Escape"]), "judge");
    assert_eq!(page.attribute("role"), "row");
    assert_eq!(page.browser.eval("document.querySelector('.about').hidden"), true);
    page.was_quiet();
}

#[test]
fn a_tooltip_comes_with_the_pointer_and_with_the_focus() {
    let mut page = Page::of(&startup());
    let tooltip = "(it => it.hidden ? '' : it.innerText)(document.querySelector('#tooltip'))";
    assert_eq!(page.browser.text(tooltip), "");
    let place = "(it => [it.x + it.width / 2, it.y + 5])
        (document.querySelectorAll('.row')[3].getBoundingClientRect())";
    let place = page.browser.eval(place);
    let moved = json!({"type": "mouseMoved", "x": place[0], "y": place[1]});
    page.browser.call("Input.dispatchMouseEvent", moved);
    page.browser.settle();
    let said = page.browser.text(tooltip);
    assert!(said.starts_with("reward\n12.4 s, 100%, on the longest path\n0.012000 s – 12.3"));
    page.press(&["Escape"]);
    assert_eq!(page.browser.text(tooltip), "");
    page.browser.eval("document.querySelector('.keys summary').focus()");
    page.press(&["Tab"]);
    assert!(page.browser.text(tooltip).starts_with("gym.startup\n"), "{said}");
    assert_eq!(page.attribute("aria-describedby"), "tooltip");
    page.was_quiet();
}

#[test]
fn search_reaches_what_is_folded() {
    let mut page = Page::of(&startup());
    page.click(".tools .fold");
    assert_eq!(page.rows().len(), 1);
    page.browser.press("/");
    page.browser.type_in("VENV");
    let found = "document.querySelector('#found').textContent";
    assert_eq!(page.browser.text(found), "1 of 4: venv_setup, 9.09 s");
    assert_eq!(page.press(&["Enter"]), "input");
    assert_eq!(page.browser.text(found), "2 of 4: uv venv, 270 ms");
    assert!(page.rows().iter().any(|row| row.starts_with("uv venv | ")));
    page.press(&["Enter"]);
    assert_eq!(page.browser.text(found), "3 of 4: venv_setup, 1.04 s");
    page.click(".previous");
    assert_eq!(page.browser.text(found), "2 of 4: uv venv, 270 ms");
    page.click(".next");
    // What had to be unfolded for the one before is folded again.
    assert!(!page.rows().iter().any(|row| row.starts_with("uv venv | ")));
    assert_eq!(page.browser.text("document.querySelector('.found mark').textContent"), "venv");
    assert_eq!(page.press(&["Escape"]), "venv_setup");
    page.browser.press("/");
    page.browser.type_in("no module 'torch'");
    assert_eq!(page.browser.text(found), "1 of 1: judge, 2.69 s");
    page.browser.press("/");
    page.browser.type_in("nowhere");
    assert_eq!(page.browser.text(found), "no span has it");
    page.was_quiet();
}

#[test]
fn names_are_shown_and_do_nothing() {
    let names = [
        "</script><script>document.title = 'taken'</script>",
        "<img src=\"http://127.0.0.1:9/x\" onerror=\"document.title = 'taken'\">",
        "<!--<script>",
        "\"'&amp;{script}{data}\\u003c",
        "right\u{202e}left\u{2028}\u{0}\u{1b}[2J\u{7}",
        "評価サーバー",
        "a very long name ".repeat(40).trim(),
    ]
    .map(str::to_owned);
    let mut spans = vec![span(1, 0, "gym.startup", 0, 1_000)];
    for (id, name) in (2..).zip(&names) {
        let evil = span(id, 1, "gym.startup.server", id, 900).with(SERVER, name);
        spans.push(evil.with(name, name).with(OUTCOME, name).failed(name));
    }
    let mut page = Page::of(&spans);
    let labels = "[...document.querySelectorAll('.label')].map(it => it.textContent)";
    let labels: Vec<String> = serde_json::from_value(page.browser.eval(labels)).unwrap();
    let shown = "right\u{fffd}left\u{fffd}\u{fffd}\u{fffd}[2J\u{fffd}";
    let expected = names.map(|it| if it.starts_with("right") { shown.to_owned() } else { it });
    assert_eq!(labels[1..], expected);
    for number in 0..=expected.len() {
        page.browser.eval(&format!("document.querySelectorAll('.row')[{number}].click()"));
        page.browser.settle();
    }
    assert!(page.browser.text("document.title").starts_with("Startup of "));
    let scripts = "document.querySelectorAll('script, img').length";
    assert_eq!(page.browser.eval(scripts), 2);
    page.was_quiet();
}

#[test]
fn were_a_name_markup_the_policy_would_keep_it_from_doing_anything() {
    let mut page = Page::of(&startup());
    let inject = "(() => {
        const script = document.createElement('script');
        script.textContent = 'document.title = \"taken\"';
        const image = document.createElement('img');
        image.src = 'http://127.0.0.1:9/x';
        document.body.append(script, image);
    })()";
    page.browser.eval(inject);
    page.browser.settle();
    assert!(page.browser.text("document.title").starts_with("Startup of "));
    page.browser.wait_for("Network.loadingFailed", |_| true);
    let failed = page.browser.events("Network.loadingFailed");
    let blocked: Vec<_> = failed.iter().map(|it| &it["blockedReason"]).collect();
    assert_eq!(json!(blocked), json!(["csp"]));
}

#[test]
fn ten_thousand_spans_do_not_freeze_it() {
    let mut page = Page::of(&ten_thousand());
    let loaded = page.browser.eval("performance.getEntriesByType('navigation')[0].loadEventEnd");
    let header = page.browser.text("document.querySelector('section header').innerText");
    assert!(header.contains("10,000 spans"), "{header}");
    // At first only what leads to the longest path is unfolded: the servers, and the slowest one.
    let count = "document.querySelector('.grid').getAttribute('aria-rowcount')";
    assert_eq!(page.browser.text(count), "201");
    page.click(".unfold");
    assert_eq!(page.browser.text(count), "10001");
    page.browser.eval("document.querySelector('.row').focus()");
    assert_eq!(page.press(&["End"]), "stage_100_of_98");
    assert_eq!(page.attribute("aria-rowindex"), "10001");
    page.browser.eval("scrollTo(0, document.body.scrollHeight / 2)");
    page.browser.settle();
    assert!(page.rows().iter().any(|row| row.contains("_of_49")), "{:?}", page.rows());
    page.browser.press("/");
    page.browser.type_in("stage_77_of_3");
    let found = "document.querySelector('#found').textContent";
    assert_eq!(page.browser.text(found), "1 of 11: stage_77_of_3, 280 ms");
    let rows = page.rows();
    assert!(rows.iter().any(|row| row.starts_with("stage_77_of_3 |")), "{rows:?}");
    assert!(rows.len() < 200, "{}", rows.len());
    let tasks = "new Promise(done => new PerformanceObserver(list =>
        done(Math.max(0, ...list.getEntries().map(it => it.duration))))
        .observe({type: 'longtask', buffered: true}) ?? setTimeout(() => done(0), 500))";
    let longest = page.browser.eval(tasks);
    println!("loaded after {loaded} ms, longest task {longest} ms");
    // Far more than it takes: a busy machine, and still not a page that hangs.
    assert!(loaded.as_f64().unwrap() < 60_000.0, "{loaded}");
    assert!(longest.as_f64().unwrap() < 5_000.0, "{longest}");
    page.was_quiet();
}

#[test]
fn it_is_readable_in_light_and_in_dark() {
    let mut page = Page::of(&startup());
    page.browser.press("/");
    page.browser.type_in("venv");
    page.browser.eval("document.querySelector('.failed.row').click()");
    page.browser.eval("document.querySelector('.keys').open = true");
    let ground = "getComputedStyle(document.documentElement).backgroundColor";
    for (scheme, expected) in [("light", "rgb(255, 255, 255)"), ("dark", "rgb(16, 19, 23)")] {
        page.prefer(scheme);
        assert_eq!(page.browser.text(ground), expected);
        assert_eq!(page.pale(), json!([]), "{scheme}");
    }
    page.was_quiet();
}

#[test]
fn paper_gets_every_row_in_light_colours() {
    let mut page = Page::of(&ten_thousand());
    page.prefer("dark");
    let watch = "addEventListener('beforeprint', () => {
        printed = [document.querySelectorAll('.row').length, document.querySelector('.cut').textContent,
            matchMedia('print').matches];
    })";
    page.browser.eval("var printed");
    page.browser.eval(watch);
    let shown = page.browser.eval("document.querySelector('.grid').ariaRowCount - 1");
    let pages = page.print("some");
    assert_eq!(page.browser.eval("printed.slice(0, 2)"), json!([shown, ""]));
    assert!(pages >= 2, "{pages}");
    page.click(".unfold");
    let pages = page.print("many");
    let cut = "Of 10,000 rows the first 2,000 are printed. \
        To print others, fold what is before them.";
    assert_eq!(page.browser.eval("printed.slice(0, 2)"), json!([2_000, cut]));
    assert!(pages >= 20, "{pages}");
    // Back on the screen there are few again.
    assert!(page.rows().len() < 200);
    let dark = json!([{"name": "prefers-color-scheme", "value": "dark"}]);
    let paper = json!({"media": "print", "features": dark});
    page.browser.call("Emulation.setEmulatedMedia", paper);
    let ground = "getComputedStyle(document.documentElement).backgroundColor";
    assert_eq!(page.browser.text(ground), "rgb(255, 255, 255)");
    page.was_quiet();
}

#[test]
fn a_screen_reader_finds_a_tree_of_rows() {
    let mut page = Page::of(&startup());
    let tree = page.browser.call("Accessibility.getFullAXTree", json!({}));
    let nodes: Vec<_> = tree["nodes"].as_array().unwrap().iter().collect();
    let of = |role: &str| -> Vec<_> {
        nodes
            .iter()
            .filter(|node| node["role"]["value"] == role && node["ignored"] == false)
            .collect()
    };
    let property = |node: &Value, name: &str| {
        let mut all = node["properties"].as_array().unwrap().iter();
        all.find(|it| it["name"] == name).map(|it| it["value"]["value"].clone())
    };
    let grids = of("treegrid");
    assert_eq!(grids.len(), 1);
    assert_eq!(grids[0]["name"]["value"], "Dec 1, 2026, 6:30:00 AM UTC");
    let rows: Vec<_> = of("row")
        .iter()
        .map(|row| {
            let name = row["name"]["value"].as_str().unwrap().to_owned();
            let level = property(row, "level").map_or(0, |it| it.as_u64().unwrap());
            let expanded = property(row, "expanded").map_or(String::new(), |it| it.to_string());
            format!("{level} {expanded} {name}")
        })
        .collect();
    assert_snapshot!(rows.join("\n"), @r"
    0  Span Duration Share Time since the start
    1 true gym.startup ✗ failed 12.4 s 100% from 0.000000 s to 12.400000 s, on the longest path
    2  load_config 3.00 ms <1% from 0.000000 s to 0.003000 s, on the longest path
    2  spawn_servers 12.0 ms <1% from 0.003000 s to 0.015000 s, on the longest path
    2 true reward 12.4 s 100% from 0.012000 s to 12.390000 s, on the longest path
    3 true venv_setup 9.09 s 73% from 0.012000 s to 9.100000 s, on the longest path
    4  uv venv 270 ms 2% from 0.040000 s to 0.310000 s, on the longest path
    4  uv pip install 8.69 s 70% from 0.330000 s to 9.020000 s, on the longest path
    3  server_start 3.29 s 27% from 9.100000 s to 12.390000 s, on the longest path
    2 true policy_model 4.24 s 34% from 0.012000 s to 4.250000 s
    3  venv_setup 1.04 s 8% from 0.012000 s to 1.050000 s
    3  server_start 3.20 s 26% from 1.050000 s to 4.250000 s
    3 true its own report (pid 4711) 3.89 s 31% from 0.012000 s to 3.900000 s
    4  init_server 2.81 s 23% from 1.090000 s to 3.900000 s
    3 true worker (pid 4712) 300 ms 2% from 3.900000 s to 4.200000 s
    4  worker_start 300 ms 2% from 3.900000 s to 4.200000 s
    2 true judge ✗ failed 2.69 s 22% from 0.012000 s to 2.700000 s
    3  venv_setup 2.39 s 19% from 0.012000 s to 2.400000 s
    3  load weights not ended 10.0 s 81% from 2.400000 s and not ended
    3  no time at all 0 s 0% from 2.500000 s to 2.500000 s
    2  wait_for_servers 12.4 s 100% from 0.015000 s to 12.400000 s
    ");
    let headers: Vec<_> = of("columnheader").iter().map(|it| &it["name"]["value"]).collect();
    assert_eq!(json!(headers), json!(["Span", "Duration", "Share", "Time since the start"]));
    assert_eq!(of("searchbox")[0]["name"]["value"], "Search all spans");
    assert!(of("button").iter().all(|it| it["name"]["value"] != ""));
    page.was_quiet();
}

#[test]
fn several_startups_are_sections_with_links() {
    let later: Vec<_> = startup()
        .into_iter()
        .map(|mut span| {
            span["traceId"] = json!("2459932a52cac21e3ad6396c543dc573");
            span
        })
        .collect();
    let mut page = Page::sized(&[&startup(), &later], 1280, 800);
    assert_eq!(page.browser.text("document.querySelector('h1').textContent"), "2 startups");
    assert_eq!(page.browser.eval("document.querySelectorAll('[role=treegrid]').length"), 2);
    page.click("nav li:nth-child(2) a");
    let top = "Math.round(document.querySelector('#startup-2').getBoundingClientRect().top)";
    assert!(page.browser.eval(top).as_i64().unwrap() < 200);
    page.browser.press("/");
    page.browser.type_in("uv venv");
    let found = "document.querySelector('#found').textContent";
    assert_eq!(page.browser.text(found), "1 of 2: uv venv, 270 ms");
    page.was_quiet();
}

#[test]
fn an_axis_has_round_times() {
    const HOUR: u64 = 3_600_000;
    let lengths = [(0, 3), (0, 700), (0, 90_000), (0, 2 * HOUR), (0, 100 * HOUR), (5, 5)];
    let startups = (1..).zip(lengths).map(|(number, (from, to))| {
        let mut span = span(1, 0, "gym.startup", from, to);
        span["traceId"] = json!(format!("{number:032x}"));
        [span]
    });
    let startups: Vec<_> = startups.collect();
    let startups: Vec<&[Value]> = startups.iter().map(|spans| &spans[..]).collect();
    let mut page = Page::sized(&startups, 1280, 800);
    let axes = "[...document.querySelectorAll('.axis')].map(axis =>
        [...axis.children].map(it => it.textContent).join(', ')).join('\\n')";
    assert_snapshot!(page.browser.text(axes), @r"
    0 s, 0.5 ms, 1.0 ms, 1.5 ms, 2.0 ms, 2.5 ms, 3.0 ms
    0 s, 100 ms, 200 ms, 300 ms, 400 ms, 500 ms, 600 ms, 700 ms
    0 s, 20 s, 40 s, 1m 00s, 1m 20s
    0 s, 20m 00s, 40m 00s, 1h 00m, 1h 20m, 1h 40m, 2h 00m
    0 s, 24h 00m, 48h 00m, 72h 00m, 96h 00m
    0 s
    ");
    page.was_quiet();
}

#[test]
fn it_is_usable_on_a_small_screen_and_looked_at_on_all() {
    let mut page = Page::of(&startup());
    for scheme in ["light", "dark"] {
        page.prefer(scheme);
        page.screenshot(scheme);
    }
    page.browser.eval("document.querySelectorAll('.failed.row')[1].click()");
    page.screenshot("details");
    page.press(&["Escape"]);
    page.prefer("light");
    for width in [400, 360] {
        page.browser.resize(width, 800);
        page.browser.settle();
        let wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth";
        assert_eq!(page.browser.eval(wide), false);
        let bar = "document.querySelector('.row .time').getBoundingClientRect().width";
        assert!(page.browser.eval(bar).as_f64().unwrap() >= 80.0);
        assert_eq!(page.axis(), "0 s, 10 s");
    }
    page.browser.resize(400, 800);
    page.screenshot("small");
    page.was_quiet();
}

#[test]
fn without_scripts_it_says_what_it_needs() {
    let mut page = Page::of(&startup());
    page.browser.call("Emulation.setScriptExecutionDisabled", json!({"value": true}));
    // Whoever asks a page for something while it makes room for another gets an error.
    page.browser.reload();
    let says = "document.body.innerText.includes('drawing them needs JavaScript')";
    assert_eq!(page.browser.eval(says), true);
    page.was_quiet();
}
