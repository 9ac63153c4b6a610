"""hvd.elastic.run of TensorFlow goes on after a failure of Horovod's, and swallows no other."""

from __future__ import annotations

from jobs import run_job


def test_each_error(need, tmp_path):
    need("tensorflow", "gloo")
    job = run_job(tmp_path, "elastic_errors", ranks=1, controller="gloo").succeeded()
    assert job.reports()[0]["seen"] == {
        "shut down": "HorovodInternalError",
        "peer": "HorovodInternalError",
        "planned": "HorovodInternalError",
        "other": "UnknownError",
        "of the script": "KeyError",
    }
