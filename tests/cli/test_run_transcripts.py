"""Transcripts of one command: a demand for one is answered, if only by why there is none."""

from pathlib import Path

import pytest

from agentrt.base.content_config import ContentConfig
from agentrt.base.ids import RunId
from agentrt.cli.run_transcripts import RunTranscripts

RUN = RunId("00000000000000a1")


@pytest.mark.parametrize("show", [True, False])
def test_a_transcript_that_is_not_there_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], show: bool
) -> None:
    transcripts = RunTranscripts(tmp_path, ContentConfig("transcript"), show=show, warn=print)
    transcripts.show(RUN)
    transcripts.close()
    assert (f"the transcript of run {RUN} is not written yet" in capsys.readouterr().err) is show
