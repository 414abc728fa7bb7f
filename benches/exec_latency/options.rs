//! What is asked for.

/// The fewest rounds whose medians can be told apart.
pub const LEAST_TO_JUDGE: usize = 1_000;
const DEFAULT: usize = 3_000;
/// Enough to see that everything runs, as `cargo test --all-targets` wants to.
const SMOKE: usize = 10;

/// How many rounds to run.
pub fn rounds(mut args: impl Iterator<Item = String>) -> Result<usize, String> {
    let mut default = SMOKE;
    let mut asked = None;
    while let Some(arg) = args.next() {
        match arg.as_str() {
            // From `cargo bench` only.
            "--bench" => default = DEFAULT,
            "--rounds" => {
                let value = args.next().unwrap_or_default();
                let number = value.parse().ok().filter(|&number| number > 0);
                let why = || format!("--rounds '{value}': a number above 0 is needed");
                asked = Some(number.ok_or_else(why)?);
            }
            _ => return Err(format!("'{arg}' is no option; the only one is --rounds N")),
        }
    }
    Ok(asked.unwrap_or(default))
}
