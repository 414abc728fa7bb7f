//! The fleet file: TOML to servers, with the line of all that is wrong.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{self, Path, PathBuf};
use std::time::Duration;

use nix::unistd::{AccessFlags, eaccess};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{DEFAULT_TIMEOUT, Problem, Ready, Server, check, time};
use crate::words::plain;

/// A file that is larger is no fleet file.
const LARGEST: u64 = 16 * 1024 * 1024;

const KEYS: &[&str] = &["server", "timeout"];
const SERVER_KEYS: &[&str] =
    &["name", "type", "command", "cwd", "env", "ready", "expect", "timeout"];
const REQUIRED: &[&str] = &["name", "command", "ready"];

/// Reads the servers of the file at `path`, in its order.
pub fn read(path: &Path) -> Result<Vec<Server>, Vec<Problem>> {
    let whole = |why: String| vec![Problem::of_file(path, None, "", &why)];
    let bytes = content(path).map_err(whole)?;
    let text = str::from_utf8(&bytes).map_err(|error| {
        let (before, _) = bytes.split_at_checked(error.valid_up_to()).unwrap_or_default();
        vec![Problem::of_file(path, Some(line_after(before)), "", "not UTF-8, which TOML is")]
    })?;
    let folder = path::absolute(path).map_err(|error| whole(plain(error)))?;
    let folder = folder.parent().unwrap_or(&folder).to_owned();
    let mut reader = Reader { path, text, folder, problems: Vec::new() };
    let servers = reader.fleet();
    let mut problems = reader.problems;
    if problems.is_empty() {
        return Ok(servers);
    }
    problems.sort_by_key(|problem| problem.line);
    Err(problems)
}

fn content(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LARGEST).read_to_end(&mut bytes));
    match read {
        Err(error) => Err(plain(error)),
        Ok(_) if bytes.len() as u64 == LARGEST => Err("16 MiB or more: no fleet file".to_owned()),
        Ok(_) => Ok(bytes),
    }
}

/// The line that begins or goes on after `before`.
fn line_after(before: &[u8]) -> usize {
    before.iter().filter(|&&byte| byte == b'\n').count().saturating_add(1)
}

type Value<'t> = Spanned<DeValue<'t>>;

/// Reads on after everything that is wrong, so that all of it is told at once.
struct Reader<'t> {
    path: &'t Path,
    text: &'t str,
    /// Where relative paths begin.
    folder: PathBuf,
    problems: Vec<Problem>,
}

impl<'t> Reader<'t> {
    fn fleet(&mut self) -> Vec<Server> {
        let (document, errors) = DeTable::parse_recoverable(self.text);
        if !errors.is_empty() {
            for error in errors {
                let span = error.span().unwrap_or_default();
                let at = self.text.get(span.clone()).unwrap_or_default();
                let is_key = at.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_".contains(&it));
                self.wrong(span, if is_key { at } else { "" }, error.message());
            }
            // What else is said of a line follows from the first, or repeats it.
            self.problems.sort_by_key(|problem| problem.line);
            self.problems.dedup_by_key(|problem| problem.line);
            return Vec::new();
        }
        let fleet = document.into_inner();
        self.unknown_keys(&fleet, KEYS, "A fleet file");
        let timeout = self.time(&fleet, "timeout").unwrap_or(DEFAULT_TIMEOUT);
        let tables = match fleet.get("server") {
            None => {
                let why = "no servers; each is a [[server]] with name, command and ready";
                self.wrong(0..0, "", why);
                return Vec::new();
            }
            Some(value) => match value.get_ref() {
                DeValue::Array(tables) if !tables.is_empty() => tables,
                _ => {
                    self.wrong(value.span(), "server", "every server is headed by [[server]]");
                    return Vec::new();
                }
            },
        };
        let mut servers: Vec<(Server, usize)> = Vec::new();
        for table in tables.iter() {
            let DeValue::Table(keys) = table.get_ref() else {
                self.wrong(table.span(), "server", "every server is headed by [[server]]");
                continue;
            };
            let Some(server) = self.server(keys, table.span(), timeout) else { continue };
            for (other, line) in &servers {
                let span = |key| keys.get(key).map_or(table.span(), Spanned::span);
                if other.name == server.name {
                    let why = format!("{:?} is the server of line {line} already", server.name);
                    self.wrong(span("name"), "name", &why);
                } else if other.ready.answers_for(&server.ready) {
                    let why =
                        format!("{} is also that of {:?}, line {line}", other.ready, other.name);
                    self.wrong(
                        span("ready"),
                        "ready",
                        &format!("{why}: one would answer for both"),
                    );
                }
            }
            servers.push((server, self.line(&table.span())));
        }
        servers.into_iter().map(|(server, _)| server).collect()
    }

    fn server(
        &mut self,
        keys: &DeTable<'t>,
        span: Range<usize>,
        timeout: Duration,
    ) -> Option<Server> {
        let already_wrong = self.problems.len();
        self.unknown_keys(keys, SERVER_KEYS, "A server");
        for key in REQUIRED.iter().filter(|key| !keys.contains_key(**key)) {
            self.wrong(span.clone(), key, "missing; a server has at least name, command and ready");
        }
        let name = self.string(keys, "name").unwrap_or_default();
        if let Some(value) = keys.get("name").filter(|value| value.get_ref().is_str()) {
            check::name(&name).unwrap_or_else(|why| self.wrong(value.span(), "name", &why));
        }
        let server_type = self.string(keys, "type").filter(|server_type| !server_type.is_empty());
        let command = self.command(keys);
        let cwd = self.cwd(keys);
        let env = self.env(keys);
        let expect = self.expect(keys);
        let ready = self.ready(keys, expect);
        let timeout = self.time(keys, "timeout").unwrap_or(timeout);
        if self.problems.len() > already_wrong {
            return None;
        }
        Some(Server {
            name,
            server_type,
            command,
            cwd: cwd.into(),
            env,
            ready: ready?,
            timeout: time::unless_zero(timeout),
        })
    }

    fn command(&mut self, keys: &DeTable<'t>) -> Vec<OsString> {
        let Some(value) = keys.get("command") else { return Vec::new() };
        let argv: Vec<OsString> = match value.get_ref() {
            DeValue::String(line) if line.trim().is_empty() => Vec::new(),
            DeValue::String(line) => ["bash", "-c", line].map(OsString::from).into(),
            DeValue::Array(words) => {
                let words = words.iter().filter_map(|word| self.word(word, "command"));
                words.map(OsString::from).collect()
            }
            _ => {
                let why = "a line for bash, or a list of a program and its arguments";
                return self.not_a(value, "command", why).unwrap_or_default();
            }
        };
        check::command(&argv).unwrap_or_else(|why| self.wrong(value.span(), "command", &why));
        argv
    }

    fn cwd(&mut self, keys: &DeTable<'t>) -> PathBuf {
        let Some(cwd) = self.string(keys, "cwd") else { return self.folder.clone() };
        let span = keys.get("cwd").map(Spanned::span).unwrap_or_default();
        let path = self.folder.join(&cwd);
        let why = match path.metadata() {
            Ok(it) if it.is_dir() => match eaccess(&path, AccessFlags::X_OK) {
                Ok(()) => return path,
                Err(errno) => plain(io::Error::from(errno)),
            },
            Ok(_) => "not a directory".to_owned(),
            Err(error) => plain(error),
        };
        let from =
            if Path::new(&cwd).is_relative() { ", from the fleet file's folder" } else { "" };
        self.wrong(span, "cwd", &format!("{}: {why}{from}", path.display()));
        path
    }

    fn env(&mut self, keys: &DeTable<'t>) -> Vec<(String, String)> {
        let Some(value) = keys.get("env") else { return Vec::new() };
        let DeValue::Table(table) = value.get_ref() else {
            let why = "a table, such as { PORT = \"8000\" }";
            return self.not_a(value, "env", why).unwrap_or_default();
        };
        let mut variables: Vec<_> = table.iter().collect();
        variables.sort_by_key(|(name, _)| name.span().start);
        let mut env = Vec::new();
        for (name, value) in variables {
            let key = format!("env.{}", name.get_ref());
            let Some(text) = self.word(value, &key) else { continue };
            check::variable(name.get_ref(), &text)
                .unwrap_or_else(|why| self.wrong(name.span(), &key, &why));
            env.push((name.get_ref().to_string(), text));
        }
        env
    }

    fn expect(&mut self, keys: &DeTable<'t>) -> Option<u16> {
        let value = keys.get("expect")?;
        let Some(number) = integer(value.get_ref()) else {
            return self.not_a(value, "expect", "an HTTP status, such as 200");
        };
        check::status(number).map_err(|why| self.wrong(value.span(), "expect", &why)).ok()
    }

    fn ready(&mut self, keys: &DeTable<'t>, expect: Option<u16>) -> Option<Ready> {
        let text = self.string(keys, "ready")?;
        let ready = Ready::parse(&text, expect, &self.folder);
        let span = keys.get("ready").map(Spanned::span).unwrap_or_default();
        ready.map_err(|why| self.wrong(span, "ready", &why)).ok()
    }

    fn time(&mut self, keys: &DeTable<'t>, key: &str) -> Option<Duration> {
        let value = keys.get(key)?;
        let time = match value.get_ref() {
            DeValue::String(text) => time::from_text(text),
            DeValue::Integer(_) | DeValue::Float(_) => {
                time::from_text(&number(value.get_ref()).unwrap_or_default())
            }
            _ => return self.not_a(value, key, time::ACCEPTED),
        };
        time.map_err(|why| self.wrong(value.span(), key, &why)).ok()
    }

    fn string(&mut self, keys: &DeTable<'t>, key: &str) -> Option<String> {
        let value = keys.get(key)?;
        match value.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            _ => self.not_a(value, key, "a string"),
        }
    }

    /// A string, or a number as it is written.
    fn word(&mut self, value: &Value<'t>, key: &str) -> Option<String> {
        match value.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            other => match number(other) {
                Some(text) => Some(text),
                None => self.not_a(value, key, "a string"),
            },
        }
    }

    fn not_a<T>(&mut self, value: &Value<'t>, key: &str, accepted: &str) -> Option<T> {
        let kind = match value.get_ref().type_str() {
            kind @ ("array" | "integer") => format!("an {kind}"),
            kind => format!("a {kind}"),
        };
        self.wrong(value.span(), key, &format!("{kind}; it takes {accepted}"));
        None
    }

    fn unknown_keys(&mut self, keys: &DeTable<'t>, known: &[&str], of: &str) {
        let mut unknown: Vec<_> =
            keys.keys().filter(|key| !known.contains(&&**key.get_ref())).collect();
        unknown.sort_by_key(|key| key.span().start);
        for key in unknown {
            let name = key.get_ref();
            let hint = match nearest(name, known) {
                Some(known) => format!("; did you mean {known}?"),
                None => ".".to_owned(),
            };
            let why = format!("no such key{hint} {of} has {}", known.join(", "));
            self.wrong(key.span(), name, &why);
        }
    }

    fn wrong(&mut self, span: Range<usize>, about: &str, why: &str) {
        self.problems.push(Problem::of_file(self.path, Some(self.line(&span)), about, why));
    }

    fn line(&self, span: &Range<usize>) -> usize {
        line_after(self.text.as_bytes().get(..span.start).unwrap_or_default())
    }
}

fn integer(value: &DeValue<'_>) -> Option<i64> {
    let integer = value.as_integer()?;
    i64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

/// A number in decimal.
fn number(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::Float(float) => Some(float.as_str().to_owned()),
        _ => integer(value).map(|integer| integer.to_string()),
    }
}

/// The known key that `name` was meant to be, as far as one can tell.
fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    let name = name.to_lowercase();
    let likeness = |known: &&'k str| (strsim::jaro_winkler(&name, known), *known);
    let best = known.iter().map(likeness).max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 > 0.75).then_some(best.1)
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test says what is wrong by panicking"
)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    /// What is said of a fleet file with this `text`.
    fn problems(text: impl AsRef<[u8]>) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fleet.toml");
        std::fs::write(&path, text).unwrap();
        let problems = read(&path).unwrap_err();
        let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
        lines.join("\n").replace(folder.path().to_str().unwrap(), "DIR")
    }

    fn servers(text: &str) -> (tempfile::TempDir, Vec<Server>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fleet.toml");
        std::fs::create_dir(folder.path().join("reward")).unwrap();
        std::fs::write(&path, text).unwrap();
        let servers = read(&path).unwrap();
        (folder, servers)
    }

    const ONE: &str = "[[server]]\nname = \"a\"\ncommand = \"x\"\nready = \"tcp://h:1\"\n";

    #[test]
    fn a_server_is_what_its_table_says() {
        let (folder, servers) = servers(
            r#"
            timeout = "2m"
            [[server]]
            name = "reward"
            type = "resources_servers"
            command = "./launch.sh | tee log"
            cwd = "reward"
            env = { PORT = 8001, B = "two words", A = "" }
            ready = "http://127.0.0.1:8001/health?full=1"
            expect = 200
            timeout = 90
            [[server]]
            name = "policy model"
            command = ["vllm", "serve", "--port", 8002]
            ready = "unix:run/model.sock"
            [[server]]
            name = "judge"
            command = ["judge"]
            ready = "tcp://[::1]:8003"
            timeout = 0
            "#,
        );
        let (reward, policy, judge) = (&servers[0], &servers[1], &servers[2]);
        assert_eq!(servers.len(), 3);
        assert_eq!(reward.name, "reward");
        assert_eq!(reward.server_type.as_deref(), Some("resources_servers"));
        assert_eq!(reward.command, ["bash", "-c", "./launch.sh | tee log"]);
        assert_eq!(*reward.cwd, *folder.path().join("reward"));
        let env: Vec<_> = reward.env.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(env, [("PORT", "8001"), ("B", "two words"), ("A", "")]);
        let (host, target) = ("127.0.0.1".to_owned(), "/health?full=1".to_owned());
        let expected = Ready::Http { tls: false, host, port: 8001, target, expect: Some(200) };
        assert_eq!(reward.ready, expected);
        assert_eq!(reward.timeout, Some(Duration::from_secs(90)));
        assert_eq!(policy.command, ["vllm", "serve", "--port", "8002"]);
        assert_eq!(*policy.cwd, *folder.path());
        let path = folder.path().join("run/model.sock").into();
        assert_eq!(policy.ready, Ready::Unix { path, expect: None });
        assert_eq!(policy.timeout, Some(Duration::from_secs(120)));
        assert_eq!(judge.ready, Ready::Tcp { host: "::1".to_owned(), port: 8003 });
        assert_eq!(judge.timeout, None);
    }

    #[test]
    fn the_fleet_file_of_the_help_is_one() {
        let help = crate::args::RUN_MORE;
        let lines = help.lines().skip(1).take_while(|line| line.starts_with("  "));
        let (_folder, servers) = servers(&lines.collect::<Vec<_>>().join("\n"));
        assert_eq!(servers[0].timeout, Some(Duration::from_secs(300)));
    }

    #[test]
    fn all_that_is_wrong_is_told_at_once_with_its_line() {
        let text = r#"
            timeout = "soon"
            colour = "red"
            [[server]]
            nmae = "reward"
            command = ""
            ready = "127.0.0.1:8001"
            [[server]]
            name = "b/c"
            command = ["", "x"]
            cwd = "nowhere"
            ready = "ftp://127.0.0.1:8001/"
            expect = 42
            timeout = "5 parsecs"
            [server.env]
            PORT = [1]
            "A=B" = "c"
            NEMO_GYM_STARTUP_SPAWN_NS = 1
            [[server]]
            name = 7
            command = true
            ready = ["http://a", "http://b"]
            env = "PORT=1"
            expect = "200"
            timeout = false
        "#;
        assert_snapshot!(problems(text), @r#"
        DIR/fleet.toml:2: timeout: "soon" is not a time; it takes a number of seconds, or a time such as 90s, 5m, 1m 30s, 500ms
        DIR/fleet.toml:3: colour: no such key. A fleet file has server, timeout
        DIR/fleet.toml:4: name: missing; a server has at least name, command and ready
        DIR/fleet.toml:5: nmae: no such key; did you mean name? A server has name, type, command, cwd, env, ready, expect, timeout
        DIR/fleet.toml:6: command: empty; it is a line for bash, or a list of a program and its arguments
        DIR/fleet.toml:7: ready: "127.0.0.1:8001": no scheme; it is http://HOST:PORT/PATH, https://HOST:PORT/PATH, tcp://HOST:PORT or unix:/PATH
        DIR/fleet.toml:9: name: "b/c" cannot be a name; it may become the name of a log file: no /, no control characters
        DIR/fleet.toml:10: command: empty; it is a line for bash, or a list of a program and its arguments
        DIR/fleet.toml:11: cwd: DIR/nowhere: No such file or directory, from the fleet file's folder
        DIR/fleet.toml:12: ready: "ftp://127.0.0.1:8001/": an unknown scheme; it is http://HOST:PORT/PATH, https://HOST:PORT/PATH, tcp://HOST:PORT or unix:/PATH
        DIR/fleet.toml:13: expect: 42 is not an HTTP status; they are 100 to 599
        DIR/fleet.toml:14: timeout: "5 parsecs" is not a time; it takes a number of seconds, or a time such as 90s, 5m, 1m 30s, 500ms
        DIR/fleet.toml:16: env.PORT: an array; it takes a string
        DIR/fleet.toml:17: env.A=B: no variable: a name is not empty and has no =, and neither it nor the value has a NUL
        DIR/fleet.toml:18: env.NEMO_GYM_STARTUP_SPAWN_NS: a stamp, which gym-startup and the server set themselves
        DIR/fleet.toml:20: name: an integer; it takes a string
        DIR/fleet.toml:21: command: a boolean; it takes a line for bash, or a list of a program and its arguments
        DIR/fleet.toml:22: ready: an array; it takes a string
        DIR/fleet.toml:23: env: a string; it takes a table, such as { PORT = "8000" }
        DIR/fleet.toml:24: expect: a string; it takes an HTTP status, such as 200
        DIR/fleet.toml:25: timeout: a boolean; it takes a number of seconds, or a time such as 90s, 5m, 1m 30s, 500ms
        "#);
    }

    #[test]
    fn servers_are_told_apart_by_name_and_by_what_answers() {
        let same_name = ONE.replace(":1", ":2");
        let same_ready = ONE.replace("\"a\"", "\"b\"");
        assert_snapshot!(problems(format!("{ONE}\n{same_name}\n{same_ready}")), @r#"
        DIR/fleet.toml:7: name: "a" is the server of line 1 already
        DIR/fleet.toml:14: ready: tcp://h:1 is also that of "a", line 1: one would answer for both
        "#);
    }

    #[test]
    fn a_file_that_is_no_fleet_is_refused() {
        assert_snapshot!(problems(""), @"DIR/fleet.toml:1: no servers; each is a [[server]] with name, command and ready");
        assert_snapshot!(problems("server = []"), @"DIR/fleet.toml:1: server: every server is headed by [[server]]");
        assert_snapshot!(problems("[server]\nname = \"a\""), @"DIR/fleet.toml:1: server: every server is headed by [[server]]");
        assert_snapshot!(problems("server = [1]"), @"DIR/fleet.toml:1: server: every server is headed by [[server]]");
        assert_snapshot!(problems("[[server]]\n"), @r"
        DIR/fleet.toml:1: name: missing; a server has at least name, command and ready
        DIR/fleet.toml:1: command: missing; a server has at least name, command and ready
        DIR/fleet.toml:1: ready: missing; a server has at least name, command and ready
        ");
        assert_snapshot!(problems("[[server]\nname = \"a\nname = 1 2\n"), @"DIR/fleet.toml:1: unclosed array table, expected `]`");
        assert_snapshot!(problems("a = [ , , ,]\nb = 1 2\nc = [[["), @r"
        DIR/fleet.toml:1: extra comma in array, expected value
        DIR/fleet.toml:2: string values must be quoted, expected literal string
        DIR/fleet.toml:3: unclosed array, expected `]`
        ");
        assert_snapshot!(problems("[[server]]\nname = 1\nname = 2\n"), @"DIR/fleet.toml:3: name: duplicate key");
        assert_snapshot!(problems(b"\n\n\xff"), @"DIR/fleet.toml:3: not UTF-8, which TOML is");
        let folder = tempfile::tempdir().unwrap();
        let no_file = read(&folder.path().join("fleet.toml")).unwrap_err();
        assert!(no_file[0].to_string().ends_with("fleet.toml: No such file or directory"));
        let no_file = read(folder.path()).unwrap_err();
        assert!(no_file[0].to_string().ends_with(": Is a directory"));
    }

    #[test]
    fn a_plan_crosses_as_json_whatever_its_paths() {
        use std::os::unix::ffi::OsStringExt;
        let (_folder, mut servers) = servers(ONE);
        servers[0].cwd = PathBuf::from(OsString::from_vec(b"/\xff".to_vec())).into();
        let json = serde_json::to_string(&servers).unwrap();
        assert_eq!(serde_json::from_str::<Vec<Server>>(&json).unwrap(), servers);
    }
}
