//! `pki`: a certificate authority for who has none.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use gpufleet_model::human;
use gpufleet_transport::pki::{Authority, CertificateSummary, IssueRequest, inspect};
use serde_json::Value;

use crate::cli::{Format, Pki};
use crate::exit::{CtlError, Exit, Result};
use crate::output::{json, yaml};
use crate::screen::print;

/// A certificate that ends sooner is pointed at.
const SOON: Duration = Duration::from_hours(24 * 14);

/// Makes or shows certificates.
pub(crate) fn run(command: Pki) -> Result<Exit> {
    match command {
        Pki::Init { dir, trust_domain, days } => {
            Authority::init(&dir, &trust_domain, of_days(days))?;
            print(&format!(
                "authority of `{trust_domain}` in `{}`, valid for {days} days\nkeep `{}` safe: whoever has it can become anyone\n",
                dir.display(),
                dir.join("ca.key").display()
            ))?;
        }
        Pki::Issue { role, name, ca, out, days, dns_names, addresses, replace } => {
            let authority = Authority::load(&ca)?;
            let validity = of_days(days);
            let request = IssueRequest { role, name, validity, dns_names, addresses, replace };
            let issued = authority.issue(&request)?;
            let out = out.unwrap_or_else(|| PathBuf::from(format!("{role}-{}", request.name)));
            issued.write(&out, replace)?;
            let expires = humantime::format_rfc3339_seconds(SystemTime::now() + validity);
            print(&format!("{} in `{}`, expires {expires}\n", issued.identity, out.display()))?;
        }
        Pki::Show { paths, output } => return show(&paths, output),
    }
    Ok(Exit::Ok)
}

fn of_days(days: u64) -> Duration {
    Duration::from_hours(24 * days)
}

fn show(paths: &[PathBuf], output: Format) -> Result<Exit> {
    let mut found = Vec::new();
    for path in paths.iter().flat_map(|path| files(path)) {
        let certificates = inspect(&path)?;
        found.extend(certificates.into_iter().map(|certificate| (path.clone(), certificate)));
    }
    match output {
        Format::Table | Format::Wide => print(&found.iter().map(|(path, one)| text(path, one)).collect::<String>())?,
        Format::Json => {
            let document: Vec<Value> = found.iter().map(|(path, one)| value(path, one)).collect();
            print(&json::text(&document.into())?)?;
        }
        Format::Yaml => {
            let document = found.iter().map(|(path, one)| value(path, one)).collect();
            print(&yaml(&document)?)?;
        }
        Format::Csv | Format::Name => return Err(CtlError::usage("certificates are printed as table, json or yaml")),
    }
    let expired = found.iter().any(|(_, one)| one.not_after <= SystemTime::now());
    Ok(if expired { Exit::Failed } else { Exit::Ok })
}

/// A folder stands for the certificates in it.
fn files(path: &Path) -> Vec<PathBuf> {
    if !path.is_dir() {
        return vec![path.to_owned()];
    }
    let candidates = ["ca.crt", "tls.crt"].map(|name| path.join(name));
    let there: Vec<PathBuf> = candidates.iter().filter(|file| file.exists()).cloned().collect();
    // Nothing there: let the error name what was looked for.
    if there.is_empty() { vec![path.join("tls.crt")] } else { there }
}

fn text(path: &Path, one: &CertificateSummary) -> String {
    let left = match one.not_after.duration_since(SystemTime::now()) {
        Ok(left) if left < SOON => format!("expires soon, in {}", human::duration(left)),
        Ok(left) => format!("expires in {}", human::duration(left)),
        Err(over) => format!("EXPIRED {} ago", human::duration(over.duration())),
    };
    let identity = one.identity.as_ref().map_or_else(|| "no identity".to_owned(), ToString::to_string);
    let kind = if one.authority { "authority" } else { identity.as_str() };
    format!(
        "{}\n  {kind}\n  subject      {}\n  issuer       {}\n  valid        {} to {} ({left})\n  serial       {}\n  SHA-256      {}\n",
        path.display(),
        one.subject.escape_debug(),
        one.issuer.escape_debug(),
        humantime::format_rfc3339_seconds(one.not_before),
        humantime::format_rfc3339_seconds(one.not_after),
        one.serial,
        one.fingerprint,
    )
}

fn value(path: &Path, one: &CertificateSummary) -> Value {
    serde_json::json!({
        "path": path.display().to_string(),
        "authority": one.authority,
        "identity": one.identity.as_ref().map(ToString::to_string),
        "role": one.identity.as_ref().map(|identity| identity.role.as_str()),
        "name": one.identity.as_ref().map(|identity| identity.name.clone()),
        "subject": one.subject,
        "issuer": one.issuer,
        "not_before": humantime::format_rfc3339_seconds(one.not_before).to_string(),
        "not_after": humantime::format_rfc3339_seconds(one.not_after).to_string(),
        "serial": one.serial,
        "fingerprint_sha256": one.fingerprint,
    })
}
