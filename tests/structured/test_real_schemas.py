"""Schemas of public specifications and configuration formats; the suite's required part."""

import pytest

from agentrt import embedded
from agentrt.prompt import Codec
from agentrt.structured import checked_schema_shape, json_schema_shape
from tests.structured.schema_table import Counts, measure, real_subjects, suite_subjects

STEP = 12


@pytest.fixture(scope="module")
def vocabulary():
    return Codec.load(embedded.path()).vocab


def hold(counts: Counts, least: float, most_refused: float) -> None:
    print(counts)
    assert counts.compiled / counts.schemas >= least
    assert counts.valid_refused <= most_refused * counts.valid
    assert counts.handed_on == 0


def test_some_real_schemas_and_the_suite(vocabulary):
    few = real_subjects()[::STEP]
    hold(measure(few, json_schema_shape, vocabulary), 0.7, 0.01)
    hold(measure(suite_subjects(), json_schema_shape, vocabulary), 0.88, 0.0)


@pytest.mark.slow
def test_all_real_schemas(vocabulary):
    hold(measure(real_subjects(), json_schema_shape, vocabulary), 0.93, 0.0)
    hold(measure(real_subjects(), checked_schema_shape, vocabulary), 0.99, 0.0)
