//! Jobs and the data that they read.

use std::fs;
use std::path::PathBuf;

use crate::support::World;

/// A file with a SampleSet of a folder beside the state directory.
fn set(world: &World, name: &str, folder: &str) -> PathBuf {
    let yaml = format!(
        "apiVersion: batch.paddlepaddle.org/v1alpha1
kind: SampleSet
metadata:
  name: {name}
spec:
  partitions: 1
  source:
    uri: file://{}/
  csi:
    driver: juicefs
    juiceFSMountOptions: {{free-space-ratio: \"0.01\"}}
",
        world.path(folder).display()
    );
    world.yaml(name, &yaml)
}

#[test]
fn a_job_reads_a_set_from_its_cache() {
    let Some(world) = World::new() else { return };
    fs::create_dir(world.path("photos")).unwrap();
    for n in 0..100 {
        fs::write(
            world.path(&format!("photos/{n:02}.jpg")),
            format!("photo {n}"),
        )
        .unwrap();
    }
    let data = set(&world, "photos", "photos");
    let with_data = "sampleSetRef: {name: photos, mountPath: /photos}";
    let job = world.job(
        "looks",
        1,
        with_data,
        "cat /photos/* | wc -c; ls /photos | wc -l",
    );
    let files = [&data, &job].map(|file| file.to_str().unwrap());
    // The second time it is there already.
    for verb in ["created", "unchanged"] {
        let mut run = world.start("run", &["-f", files[0], "-f", files[1]]);
        assert_eq!(run.code(), 0, "{}", run.err());
        assert_eq!(run.said("worker-0"), ["790", "100"]);
        let said = run.err();
        for words in [
            &format!("sampleset/photos {verb}\n"),
            "photos: Ready: 100 files, 100% cached\n",
            " s (100 files, 100% cached)\n",
            "sampleset default/photos: 100% of what the workers read came from the cache: \
             100 of 100 blocks, ",
        ] {
            assert!(said.contains(words), "{words} is not in:\n{said}");
        }
        assert_eq!(world.remains(), [""; 0]);
    }
    // Its data can be emptied, as often as wanted.
    let clear = world.path("clear.yaml");
    let yaml = "apiVersion: batch.paddlepaddle.org/v1alpha1
kind: SampleJob
metadata: {name: clear}
spec: {type: clear, sampleSetRef: {name: photos}}
";
    fs::write(&clear, yaml).unwrap();
    for verb in ["created", "started again"] {
        let mut run = world.run(&clear);
        assert_eq!(run.code(), 0, "{}", run.err());
        let said = run.err();
        assert!(
            said.contains(&format!("samplejob/clear {verb}\n")),
            "{said}"
        );
        assert!(
            said.contains("samplejob default/clear: Succeeded after "),
            "{said}"
        );
    }
}

#[test]
fn a_set_that_fails_says_why_and_its_job_does_not_start() {
    let Some(world) = World::new() else { return };
    let data = set(&world, "photos", "photos");
    // Refused at once; an empty folder would be tried three times.
    let yaml = fs::read_to_string(&data).unwrap();
    fs::write(&data, yaml.replace("0.01", "1.01")).unwrap();
    let with_data = "sampleSetRef: {name: photos, mountPath: /photos}";
    let job = world.job("looks", 1, with_data, "echo never");
    let files = [&data, &job].map(|file| file.to_str().unwrap());
    let mut run = world.start("run", &["-f", files[0], "-f", files[1]]);
    assert_eq!(run.code(), 1, "{}", run.err());
    assert_eq!(run.out(), "");
    let said = run.err();
    for words in [
        "sampleset default/photos: refused after ",
        "free-space-ratio is \"1.01\"",
        "paddlejob default/looks: was not started, for its SampleSet failed\n",
    ] {
        assert!(said.contains(words), "{words} is not in:\n{said}");
    }
}
