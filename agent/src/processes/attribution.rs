//! Whose work a process is, from its control group: unit, container, pod, batch job.

/// What a control group tells. Nothing is guessed: what the path does not say stays `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attribution {
    /// The path: of version 2, else of the version 1 hierarchy that says most.
    pub cgroup: Option<String>,
    /// systemd unit.
    pub systemd_unit: Option<String>,
    /// Container id, 64 hexadecimal digits.
    pub container_id: Option<String>,
    /// Kubernetes pod UID.
    pub pod_uid: Option<String>,
    /// Slurm job id.
    pub slurm_job_id: Option<String>,
    /// Slurm step.
    pub slurm_step: Option<String>,
}

impl Attribution {
    /// Reads the text of `/proc/PID/cgroup`.
    pub fn of(text: &str) -> Self {
        let paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
        // Under version 1 each hierarchy has a path of its own; the longest is the most specific.
        let Some(path) = paths.filter(|path| path.starts_with('/')).max_by_key(|path| path.len()) else {
            return Self::default();
        };
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let unit = parts.iter().rev().find(|part| [".service", ".scope"].iter().any(|kind| part.ends_with(kind)));
        Self {
            cgroup: Some(path.to_owned()),
            systemd_unit: unit.map(|unit| (*unit).to_owned()),
            container_id: parts.iter().rev().find_map(|part| container_id(part)),
            pod_uid: parts.iter().find_map(|part| pod_uid(part)),
            slurm_job_id: parts.iter().find_map(|part| slurm_id(part, "job_")),
            slurm_step: parts.iter().find_map(|part| slurm_id(part, "step_")),
        }
    }
}

/// `ID`, `docker-ID.scope`, `cri-containerd-ID.scope`, `crio-ID.scope`, `libpod-ID.scope`.
fn container_id(part: &str) -> Option<String> {
    let bare = part.strip_suffix(".scope").unwrap_or(part);
    let id = bare.rsplit('-').next()?;
    (id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| id.to_ascii_lowercase())
}

/// `podUID`, `kubepods-burstable-podUID.slice` with `_` for `-`.
fn pod_uid(part: &str) -> Option<String> {
    let bare = part.strip_suffix(".slice").unwrap_or(part);
    let uid = match bare.strip_prefix("kubepods") {
        Some(rest) => rest.split("-pod").nth(1)?,
        None => bare.strip_prefix("pod")?,
    };
    let uid = uid.replace('_', "-").to_ascii_lowercase();
    let groups: Vec<usize> = uid.split('-').map(str::len).collect();
    let hex = uid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    // Static pods have a hash without dashes.
    (hex && (groups == [8, 4, 4, 4, 12] || groups == [32])).then_some(uid)
}

fn slurm_id(part: &str, prefix: &str) -> Option<String> {
    let id = part.strip_prefix(prefix)?;
    let known = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.+".contains(&byte));
    known.then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const POD: &str = "2f4c1a5e-9d3b-4c77-8a21-0c9e7f6b5d4a";

    fn of(path: &str) -> Attribution {
        Attribution::of(&format!("0::{path}\n"))
    }

    #[test]
    fn containers_are_found_under_every_runtime() {
        for path in [
            format!("/system.slice/docker-{ID}.scope"),
            format!("/docker/{ID}"),
            format!("/machine.slice/libpod-{ID}.scope/container"),
            format!("/kubepods.slice/kubepods-besteffort.slice/crio-{ID}.scope"),
            format!("/kubepods/besteffort/pod{POD}/{ID}"),
            format!("/kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope"),
        ] {
            assert_eq!(of(&path).container_id.as_deref(), Some(ID), "{path}");
        }
        for path in ["/user.slice/user-1000.slice", "/docker/0123", &format!("/x/{ID}0")] {
            assert_eq!(of(path).container_id, None, "{path}");
        }
    }

    #[test]
    fn pods_are_found_with_both_drivers() {
        let underscored = POD.replace('-', "_");
        for path in [
            format!("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{underscored}.slice/x"),
            format!("/kubepods.slice/kubepods-pod{underscored}.slice/x"),
            format!("/kubepods/burstable/pod{POD}/x"),
        ] {
            assert_eq!(of(&path).pod_uid.as_deref(), Some(POD), "{path}");
        }
        assert_eq!(of("/podium/podcast").pod_uid, None);
    }

    #[test]
    fn slurm_jobs_are_found_in_both_versions() {
        let two = of("/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0");
        assert_eq!((two.slurm_job_id.as_deref(), two.slurm_step.as_deref()), (Some("4711"), Some("0")));
        let one = Attribution::of("9:memory:/slurm/uid_1000/job_42/step_batch/task_0\n1:name=systemd:/x\n0::/\n");
        assert_eq!((one.slurm_job_id.as_deref(), one.slurm_step.as_deref()), (Some("42"), Some("batch")));
    }

    #[test]
    fn units_are_the_most_specific_ones() {
        let path = "/user.slice/user-1000.slice/user@1000.service/app.slice/train.service";
        assert_eq!(of(path).systemd_unit.as_deref(), Some("train.service"));
        assert_eq!(of("/user.slice/user-1000.slice/session-3.scope").systemd_unit.as_deref(), Some("session-3.scope"));
        assert_eq!(of("/").systemd_unit, None);
    }

    #[test]
    fn nonsense_gives_nothing() {
        assert_eq!(Attribution::of(""), Attribution::default());
        assert_eq!(Attribution::of("no colons here\n::\n0::relative"), Attribution::default());
    }
}
