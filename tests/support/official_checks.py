"""Runs MLCommons' own checkers (package mlperf-logging) over many logs in one process; the verdicts are theirs.

official_checks.py compliance RULESETS FILE...   RULESETS: comma-separated, as 4.1.0,5.0.0
    one JSON line a file and ruleset: {"file", "ruleset", "verdict": "success|failed|crashed", "warnings", "messages"}
official_checks.py convergence RULESET FILE...
    one JSON line a file, as the reader of reference convergence points sees it: {"file", "converged", "samples", "train_samples", "global_batch"}
official_checks.py seeds RULESET FILE...
    one JSON line: {"verdict": "success|failed"} for the set of logs
"""

import json
import logging
import sys


def compliance(rulesets, files):
    from mlperf_logging.compliance_checker import mlp_compliance

    for file in files:
        for ruleset in rulesets.split(","):
            checker = mlp_compliance.make_checker("training", ruleset, False, False)
            # A check that raised leaves its queue behind, in a global of the checker's module.
            mlp_compliance.enqueued_configs.clear()
            try:
                valid = mlp_compliance.main(file, f"training_{ruleset}/common.yaml", checker)[0]
                verdict = "success" if valid else "failed"
                messages = [*checker.overwritable.values(), *checker.not_overwritable]
            except Exception as error:  # the checker ends in a trace on some logs: exit code 1, as failed
                verdict, messages = "crashed", [repr(error)]
            print(json.dumps({"file": file, "ruleset": ruleset, "verdict": verdict, "warnings": len(checker.warnings), "messages": messages}))


def convergence(ruleset, files):
    from mlperf_logging.rcp_checker import rcp_checker

    for file in files:
        readings = [rcp_checker.read_submission_file(file, ruleset, use) for use in (False, True)]
        not_converged, samples, global_batch = readings[0][:3]
        print(
            json.dumps(
                {
                    "file": file,
                    "converged": not not_converged,
                    "samples": samples,
                    "train_samples": readings[1][1],
                    "global_batch": global_batch,
                }
            )
        )


def seeds(ruleset, files):
    from mlperf_logging.package_checker import seed_checker

    good = seed_checker.SeedChecker(ruleset).check_seeds(files)
    print(json.dumps({"verdict": "success" if good else "failed"}))


def main():
    commands = {"compliance": compliance, "convergence": convergence, "seeds": seeds}
    if len(sys.argv) < 4 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    logging.disable(logging.CRITICAL)
    commands[sys.argv[1]](sys.argv[2], sys.argv[3:])


main()
