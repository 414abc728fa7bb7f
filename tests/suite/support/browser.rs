//! A real Chromium without a window, told what to do over a pipe by its own protocol.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::toolbox::{program, spawn};

/// Far longer than a browser takes for anything on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// A browser with one page, and all that it told. It ends with its owner.
pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    session: Option<String>,
    calls: u64,
    events: Vec<Value>,
    _profile: TempDir,
}

impl Browser {
    /// Opens `page`, a file, in a window of `width` and `height`, and waits until it is loaded.
    pub fn open(page: &Path, width: u32, height: u32) -> Self {
        let profile = tempfile::Builder::new().prefix("gym-startup-browser").tempdir().unwrap();
        let mut command = Command::new("bash");
        // The protocol's pipes are descriptors 3 and 4.
        command.args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "bash"]);
        command.arg(program("chromium", "chromium")).args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--remote-debugging-pipe",
        ]);
        command.arg(format!("--user-data-dir={}", profile.path().display())).arg("about:blank");
        command.env("TZ", "UTC").env("HOME", profile.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = spawn(&mut command).unwrap();
        let to = child.stdin.take().unwrap();
        let from = messages(BufReader::new(child.stdout.take().unwrap()));
        let events = Vec::new();
        let mut browser =
            Self { child, to, from, session: None, calls: 0, events, _profile: profile };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = browser.call("Target.attachToTarget", attach);
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network", "Accessibility"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser.call("Emulation.setLocaleOverride", json!({"locale": "en-US"}));
        browser.resize(width, height);
        browser.call("Page.setLifecycleEventsEnabled", json!({"enabled": true}));
        let url = format!("file://{}", page.display());
        let loader = browser.call("Page.navigate", json!({"url": url}))["loaderId"].take();
        // The blank page that was there before it may tell of its own load only now.
        browser
            .wait_for("Page.lifecycleEvent", |it| it["name"] == "load" && it["loaderId"] == loader);
        browser
    }

    /// Loads the page again, and waits until that is done.
    pub fn reload(&mut self) {
        self.events.retain(|it| it["method"] != "Page.loadEventFired");
        self.call("Page.reload", json!({}));
        self.wait_for("Page.loadEventFired", |_| true);
    }

    pub fn resize(&mut self, width: u32, height: u32) {
        let metrics =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", metrics);
    }

    /// What `method` of the protocol gives.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.calls += 1;
        let mut call = json!({"id": self.calls, "method": method, "params": params});
        if let Some(session) = &self.session {
            call["sessionId"] = json!(session);
        }
        write!(self.to, "{call}\0").unwrap();
        let mut answer = self.until(|it, calls| it["id"] == calls, method);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].take()
    }

    /// What `expression` is, as JSON. A promise is awaited.
    pub fn eval(&mut self, expression: &str) -> Value {
        let params = json!({
            "expression": expression, "returnByValue": true, "awaitPromise": true
        });
        let mut answer = self.call("Runtime.evaluate", params);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].take()
    }

    /// The same as text.
    pub fn text(&mut self, expression: &str) -> String {
        let value = self.eval(expression);
        value.as_str().unwrap_or_else(|| panic!("{expression}: {value}")).to_owned()
    }

    /// Presses and lets go of a key, named as in `KeyboardEvent.key`.
    pub fn press(&mut self, key: &str) {
        let mut down = json!({"type": "keyDown", "key": key, "code": key});
        match key {
            "Enter" => down["text"] = json!("\r"),
            _ if key.chars().count() == 1 => down["text"] = json!(key),
            _ => down["type"] = json!("rawKeyDown"),
        }
        if key == "Tab" {
            // What the browser itself does with a key goes by this.
            down["windowsVirtualKeyCode"] = json!(9);
        }
        self.call("Input.dispatchKeyEvent", down.clone());
        down["type"] = json!("keyUp");
        self.call("Input.dispatchKeyEvent", down);
        self.settle();
    }

    /// Types into what has the focus.
    pub fn type_in(&mut self, text: &str) {
        self.call("Input.insertText", json!({"text": text}));
        self.settle();
    }

    /// Waits until what was done so far is on the screen.
    pub fn settle(&mut self) {
        let frame = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))";
        self.eval(&format!("{frame}.then(() => true)"));
    }

    /// The events of `method` so far.
    pub fn events(&self, method: &str) -> Vec<&Value> {
        self.events.iter().filter(|it| it["method"] == method).map(|it| &it["params"]).collect()
    }

    /// Waits for an event of `method`, unless it has come already.
    pub fn wait_for(&mut self, method: &str, is: impl Fn(&Value) -> bool) {
        while !self.events(method).into_iter().any(&is) {
            let event = self.until(|it, _| it["method"] == method, method);
            self.events.push(event);
        }
    }

    /// The next message that `is` it; others are kept.
    fn until(&mut self, is: impl Fn(&Value, u64) -> bool, what: &str) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let message = self.from.recv_timeout(left);
            let message = message.unwrap_or_else(|error| panic!("chromium: {what}: {error}"));
            if is(&message, self.calls) {
                return message;
            }
            self.events.push(message);
        }
    }
}

fn messages(mut from: impl BufRead + Send + 'static) -> Receiver<Value> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut message = Vec::new();
        while from.read_until(0, &mut message).is_ok_and(|count| count > 0) {
            message.pop();
            let Ok(value) = serde_json::from_slice(&message) else { break };
            if sender.send(value).is_err() {
                break;
            }
            message.clear();
        }
    });
    receiver
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It writes to its profile until it has ended.
        let close = json!({"id": 0, "method": "Browser.close"});
        let asked = write!(self.to, "{close}\0");
        let deadline = Instant::now() + Duration::from_secs(60);
        while asked.is_ok() && Instant::now() < deadline {
            if self.child.try_wait().is_ok_and(|status| status.is_some()) {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        // Its other processes end with the first.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
